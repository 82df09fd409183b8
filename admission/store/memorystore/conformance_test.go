package memorystore_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(now func() time.Time) store.Store { return memorystore.New(memorystore.Options{Now: now}) })
}
