package rehearseroom_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A process reads a room that another process changed at once, not when its own turn comes, which is every two seconds while no room is open.
func TestChangesAreNotified(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	opens := time.Now().Add(time.Hour).UTC()
	h.room(fmt.Sprintf(`"mode":"draw","capacity":1,"starts_at":%q,"gather_at":%q`, opens.Format(time.RFC3339), opens.Add(-time.Minute).Format(time.RFC3339)))
	const changes = 10
	began := time.Now()
	for i := range changes {
		text := fmt.Sprintf("Change %d.", i)
		h.operate(http.StatusOK, "POST", room+"/message", fmt.Sprintf(`{"message":%q}`, text))
		for !strings.Contains(string(h.as("ann", 1, "GET", room, "").Body), text) {
			time.Sleep(time.Millisecond)
		}
	}
	if took := time.Since(began); took > changes*time.Second/2 {
		t.Errorf("%d changes were seen after %v", changes, took)
	}
}
