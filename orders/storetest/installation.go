package storetest

import (
	"testing"

	"github.com/tidegate/tidegate/orders/internal/storage"
)

func testInstallation(t *testing.T, b *bench) {
	read := func() storage.Installation {
		t.Helper()
		in, err := b.Installation(t.Context())
		b.must(err)
		return in
	}
	install := func(namespace string, replace bool) {
		t.Helper()
		b.must(b.Install(t.Context(), namespace, replace))
	}
	unused := read()
	b.want(unused, storage.Installation{Live: unused.Live}, "before the first use")

	install("shop", false)
	first := read()
	b.want(first, storage.Installation{ID: first.ID, Namespace: "shop", Stored: unused.Live, Live: unused.Live}, "after the first use")
	install("other", false)
	b.want(read(), first, "after another first use")

	install("other", true)
	replaced := read()
	b.want(replaced, storage.Installation{ID: replaced.ID, Namespace: "other", Stored: unused.Live, Live: unused.Live},
		"after it was replaced")
	if first.ID == "" || replaced.ID == first.ID {
		t.Errorf("the ids are %q and %q", first.ID, replaced.ID)
	}
}
