package servetest

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Sale returns the definition of a sale that is running now: stock units of one item, at most one per buyer, and no payment.
func Sale(item string, stock int) string {
	now := time.Now().UTC()
	return fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"hold_ms":0,"items":[{"item":%q,"stock":%d}]}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(24*time.Hour).Format(time.RFC3339), item, stock)
}

// OpenSale defines and opens a sale through a program's internal listener, and waits until that program sells it. It retries,
// because on a busy machine a response may be 503.
func OpenSale(t testing.TB, internal, sale, definition string, headers ...string) {
	t.Helper()
	url := internal + "/v1/sales/" + sale
	Until(t, http.StatusOK, func() Answer {
		a := Call("PUT", url, definition, headers...)
		if a.Status == http.StatusCreated { // 200 if the sale exists because an answer was lost
			a.Status = http.StatusOK
		}
		return a
	})
	Until(t, http.StatusOK, func() Answer { return Call("POST", url+"/open", "", headers...) })
	AwaitOpen(t, internal, sale, headers...)
}

// AwaitOpen waits until a program sells a sale. listener is the URL of the public or the internal listener; rules only count
// public requests.
func AwaitOpen(t testing.TB, listener, sale string, headers ...string) {
	t.Helper()
	Until(t, http.StatusOK, func() Answer {
		a := Call("GET", listener+"/v1/sales/"+sale, "", headers...)
		if !bytes.Contains(a.Body, []byte(`"state":"open"`)) {
			a.Status = 0
		}
		return a
	})
}
