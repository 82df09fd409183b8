package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// A SaleVersion identifies a state of a sale. Every change of a sale and its items gives it a new revision. A database that went
// back in time gives revisions again, but the recovery that follows sets another epoch token.
type SaleVersion struct {
	Sale       string
	Revision   int64
	EpochToken string
}

// KnownSales are the versions of all sales that a process has read. It is immutable; use NewKnownSales.
type KnownSales struct {
	// Fingerprint is the hexadecimal SHA-256 of "NAME REVISION EPOCH_TOKEN" of each sale, in the byte order of the names, with commas between
	// them. A store that computes it of the sales that it has needs to list them only if it differs.
	Fingerprint string
	versions    map[string]SaleVersion
}

// NewKnownSales returns the known sales of these versions.
func NewKnownSales(versions []SaleVersion) *KnownSales {
	versions = slices.Clone(versions)
	slices.SortFunc(versions, func(a, b SaleVersion) int { return strings.Compare(a.Sale, b.Sale) })
	k := &KnownSales{versions: make(map[string]SaleVersion, len(versions))}
	var text []byte
	for i, v := range versions {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, v.Sale...), ' ')
		text = append(strconv.AppendInt(text, v.Revision, 10), ' ')
		text = append(text, v.EpochToken...)
		k.versions[v.Sale] = v
	}
	sum := sha256.Sum256(text)
	k.Fingerprint = hex.EncodeToString(sum[:])
	return k
}

// Differing returns the names of the sales of which stored has another version, that only stored has, or that it lacks, sorted.
func (k *KnownSales) Differing(stored []SaleVersion) []string {
	var names []string
	there := make(map[string]bool, len(stored))
	for _, v := range stored {
		there[v.Sale] = true
		if known, ok := k.versions[v.Sale]; !ok || known != v {
			names = append(names, v.Sale)
		}
	}
	for name := range k.versions {
		if !there[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
