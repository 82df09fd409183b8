package koala_test

import (
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// Two products with namespaces of their own do not count each other's requests in the store that they share; two processes of one do.
func TestProductsShareAStoreAndNoCounter(t *testing.T) {
	store := inMemory()
	path := writeFiles(t, map[string]string{
		"koala.conf": "[dicts]\n[rules]\nrule : [leak] [uid=+] [time=3600; count=1] [result=2; return=9]\n" + shippedResults,
	})
	service := func(namespace string) *koala.Service {
		s, err := koala.New(store, koala.Options{Path: path, Secret: fileSecret, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	forum, again, shop := service("forum"), service("forum"), service("shop")
	for i, step := range []struct {
		s    *koala.Service
		want int
	}{{forum, -1}, {again, 9}, {shop, -1}, {shop, 9}} {
		if got := browse(t, step.s, koala.Params{"uid": "7"}, true); got != step.want {
			t.Errorf("request %d: %d, want %d", i, got, step.want)
		}
	}
}
