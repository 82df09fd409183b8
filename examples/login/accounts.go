package main

import (
	"context"
	"errors"
	"runtime"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// accounts stands for a table of users.
type accounts struct {
	hashes map[string][]byte
	decoy  []byte        // hash to compare with if the name is unknown
	slots  chan struct{} // limits concurrent hashing, which is expensive on purpose
}

func newAccounts(passwords map[string]string, cost int) (*accounts, error) {
	a := &accounts{hashes: map[string][]byte{}, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	var err error
	for name, password := range passwords {
		if a.hashes[key(name)], err = bcrypt.GenerateFromPassword([]byte(password), cost); err != nil {
			return nil, err
		}
	}
	a.decoy, err = bcrypt.GenerateFromPassword([]byte("password of no account"), cost)
	return a, err
}

// key returns the lookup form of a name. Tidegate counts names that differ only in case and surrounding spaces as one, so they may be
// equal here. If your names are equal in more ways, such as with and without dots, pass the name to Tidegate as stored in your table.
func key(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// check takes the same time for unknown names, because a difference would reveal which names exist.
func (a *accounts) check(ctx context.Context, name, password string) (bool, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	hash, known := a.hashes[key(name)]
	if !known {
		hash = a.decoy
	}
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	if errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		return false, nil
	}
	return known && err == nil, err
}
