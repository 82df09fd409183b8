package admissionhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// WriteFields writes d into response header fields: RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11, one
// item for each window, and Retry-After for a denial. Shadow rules and unlimited windows are left out. For a denial, RateLimit reports
// only the windows that refused: the t of the others may be later than Retry-After and is of no use to the caller.
//
// The t of a window is when more of its limit is free, even if all of it is free only later: at most its w, unless a unit of the calendar
// is longer than usual. All durations are whole seconds, rounded up. Retry-After is never earlier than any t; it is missing where waiting
// does not help.
func WriteFields(header http.Header, d *admission.Decision) {
	var memory [2][128]byte // enough for most
	policy, limit := memory[0][:0], memory[1][:0]
	wait := seconds(d.RetryAfter)
	for i := range d.Rules {
		v := &d.Rules[i]
		if v.Shadow || v.Limit == rules.Unlimited {
			continue
		}
		policy = item(policy, v.Rule)
		policy = parameter(policy, ";q=", int64(v.Limit))
		policy = parameter(policy, ";w=", max(1, seconds(v.Window)))
		if !d.Admitted && v.Admitted {
			continue
		}
		limit = item(limit, v.Rule)
		limit = parameter(limit, ";r=", int64(max(0, v.Remaining)))
		reset := v.ResetAfter
		if !v.Admitted {
			reset = v.RetryAfter
			wait = max(wait, seconds(reset))
		}
		if v.Algorithm != store.FixedWindow && v.Window > 0 { // of others all of the limit may be free only after more than a window
			reset = min(reset, v.Window)
		}
		if reset > 0 {
			limit = parameter(limit, ";t=", seconds(reset))
		}
	}
	if len(policy) > 0 {
		both := string(append(policy, limit...))
		values := [...]string{both[:len(policy)], both[len(policy):]}
		header["Ratelimit-Policy"], header["Ratelimit"] = values[:1:1], values[1:]
	}
	if !d.Admitted && d.RetryAfter > 0 {
		header["Retry-After"] = []string{strconv.FormatInt(wait, 10)}
	}
}

// item appends the start of a list member. A rule's name needs no escaping in a quoted string.
func item(list []byte, rule string) []byte {
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	list = append(list, '"')
	list = append(list, rule...)
	return append(list, '"')
}

func parameter(list []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(list, name...), value, 10)
}

// seconds converts d to whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
