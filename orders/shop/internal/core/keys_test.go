package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestKeysAreTheseAndShareASlot(t *testing.T) {
	s := &Core{Namespace: "tidegate"}
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
	if got := s.ItemKeys("spring", "shoe", 3); !slices.Equal(got, want) {
		t.Errorf("keys %v", got)
	}
	if got := s.QueueName(2); got != "tidegate-accepted-2" {
		t.Errorf("queue %s", got)
	}
}

func TestNothingACallerSendsGrowsAKey(t *testing.T) {
	sale := orders.Sale{Salt: []byte("0123456789abcdef")}
	other := orders.Sale{Salt: []byte("fedcba9876543210")}
	seen := make(map[string]string)
	for _, value := range []string{"", "u", "{}", "a:b", "a\nb", "a\x00b", "🦆", strings.Repeat("x", 10_000)} {
		for kind, hash := range map[string]string{
			"user":                 HashOf(sale.Salt, HashUser, value),
			"key":                  HashOf(sale.Salt, HashKey, value),
			"user of another sale": HashOf(other.Salt, HashUser, value),
		} {
			what := kind + " " + value
			if before, ok := seen[hash]; ok || len(hash) != 22 {
				t.Errorf("%.20q has hash %q, as has %.20q", what, hash, before)
			}
			seen[hash] = what
		}
	}
}
