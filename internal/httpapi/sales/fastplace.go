package sales

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
)

// maxFast is the longest body that FastPlace decodes.
const maxFast = 512

// FastPlace serves the order requests of ordinary clients without Huma's reflection, which would cost more than everything
// else when a crowd is refused because the sale is sold out. The whole API process reached 0.83 and 0.87 of the throughput of a
// bare Echo handler over loopback (BenchmarkSoldOutLoopback in internal/serve, medians of ten alternating pairs on two cores,
// busy and idle machine); the goal is 0.8. Every request that is not plainly valid goes to Huma, so that only Huma judges
// errors.
func (h *Placer) FastPlace(ctx huma.Context, next func(huma.Context)) {
	c := humaecho.Unwrap(ctx)
	r := c.Request()
	in := placeInput{Sale: c.Param("sale"), Key: r.Header.Get("Idempotency-Key")}
	var ok bool
	if body := request.Of(r.Context()).Body; len(body) <= maxFast && r.Header.Get("Content-Type") == "application/json" {
		in.Body.Item, in.Body.Quantity, ok = decodeOrder(body)
	}
	if !ok {
		h.unlessBanned(ctx, next)
		return
	}
	out, err := h.Place(r.Context(), &in)
	if err != nil {
		h.Errors.Fail(c, err)
		return
	}
	header, values := c.Response().Header(), [...]string{out.Location, out.RetryAfter}
	header["Location"], header["Retry-After"] = values[:1:1], values[1:]
	if out.Replayed != "" {
		header["Idempotency-Replayed"] = []string{out.Replayed}
	}
	header["Content-Type"] = response.JSON
	c.Response().WriteHeader(http.StatusAccepted)
	_ = huma.DefaultJSONFormat.Marshal(c.Response(), &out.Body)
}

// unlessBanned refuses a banned caller before its body is read and validated. It does not apply to requests that FastPlace can
// decode: a caller that has an order gets it even while banned.
func (h *Placer) unlessBanned(ctx huma.Context, next func(huma.Context)) {
	r := request.Of(ctx.Context())
	if _, _, banned := h.Gate.Banned(h.Rules.RequestOf(r)); banned {
		rest, err := h.Rules.Charge(ctx.Context(), h.Within) // returns the refusal
		rest.End()
		if err != nil {
			h.Errors.Fail(humaecho.Unwrap(ctx), err)
			return
		}
	}
	next(ctx)
}

// decodeOrder decodes {"item":"NAME","quantity":N} as almost all clients write it: either order, any spaces, no escapes,
// quantity from 1 to 999 or left out. False means that Huma has to decode it.
func decodeOrder(b []byte) (item string, quantity int, ok bool) {
	b, ok = after(b, '{')
	for more := true; ok && more; {
		var key, value []byte
		if key, b, ok = plainString(b); !ok {
			return "", 0, false
		}
		if b, ok = after(b, ':'); !ok {
			return "", 0, false
		}
		switch {
		case string(key) == "item" && item == "":
			if value, b, ok = plainString(b); !ok || len(value) == 0 {
				return "", 0, false
			}
			item = string(value)
		case string(key) == "quantity" && quantity == 0:
			b = trimmed(b)
			digits := 0
			for ; digits < len(b) && digits < 4 && '0' <= b[digits] && b[digits] <= '9'; digits++ {
				quantity = quantity*10 + int(b[digits]-'0')
			}
			if digits == 0 || digits == 4 || b[0] == '0' {
				return "", 0, false
			}
			b = b[digits:]
		default:
			return "", 0, false
		}
		if rest, comma := after(b, ','); comma {
			b = rest
		} else {
			b, ok = after(b, '}')
			more = false
		}
	}
	if quantity == 0 {
		quantity = 1
	}
	return item, quantity, ok && item != "" && len(trimmed(b)) == 0
}

func trimmed(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

func after(b []byte, c byte) ([]byte, bool) {
	b = trimmed(b)
	if len(b) == 0 || b[0] != c {
		return nil, false
	}
	return b[1:], true
}

func plainString(b []byte) (value, rest []byte, ok bool) {
	if b, ok = after(b, '"'); !ok {
		return nil, nil, false
	}
	end := bytes.IndexByte(b, '"')
	if end < 0 || bytes.IndexByte(b[:end], '\\') >= 0 || !utf8.Valid(b[:end]) {
		return nil, nil, false
	}
	for _, c := range b[:end] {
		if c < ' ' {
			return nil, nil, false
		}
	}
	return b[:end], b[end+1:], true
}
