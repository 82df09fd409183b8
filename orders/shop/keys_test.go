package shop

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestKeysAreTheseAndShareASlot(t *testing.T) {
	s := &core{namespace: "tidegate"}
	want := []string{
		"tidegate:{spring:shoe}:3:item",
		"tidegate:{spring:shoe}:3:returned",
		"tidegate:{spring:shoe}:3:pending",
		"tidegate:{spring:shoe}:3:outbox",
		"tidegate:{spring:shoe}:3:keys",
		"tidegate:{spring:shoe}:3:buyers",
		"tidegate:{spring:shoe}:3:holders",
		"tidegate:{spring:shoe}:3:turns",
	}
	if got := s.itemKeys("spring", "shoe", 3); !slices.Equal(got, want) {
		t.Errorf("keys %v", got)
	}
	if got := s.queueName(2); got != "tidegate-accepted-2" {
		t.Errorf("queue %s", got)
	}
}

func TestNothingACallerSendsGrowsAKey(t *testing.T) {
	sale := orders.Sale{Salt: []byte("0123456789abcdef")}
	other := orders.Sale{Salt: []byte("fedcba9876543210")}
	seen := make(map[string]string)
	for _, value := range []string{"", "u", "{}", "a:b", "a\nb", "a\x00b", "🦆", strings.Repeat("x", 10_000)} {
		for kind, hash := range map[string]string{
			"user":                 hashOf(sale.Salt, hashUser, value),
			"key":                  hashOf(sale.Salt, hashKey, value),
			"user of another sale": hashOf(other.Salt, hashUser, value),
		} {
			what := kind + " " + value
			if before, ok := seen[hash]; ok || len(hash) != 22 {
				t.Errorf("%.20q has hash %q, as has %.20q", what, hash, before)
			}
			seen[hash] = what
		}
	}
}
