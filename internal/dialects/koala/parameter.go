package koala

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/admission"
)

// Params are the parameters of a request, by name. Names with a leading _ are for the service and not for rules.
type Params map[string]string

// own are the parameters with an equivalent part of a request.
var own = []string{"user", "ip", "device", "session"}

// texts are those of own that cannot be addresses.
var texts = []string{"user", "device", "session"}

// others are names that are reserved for other parts of requests, in any spelling.
var others = []string{"user", "ip", "device", "session", "route", "method", "tier", "caller", "network"}

// prefix is put before reserved names. Names that already begin with it get another prefix, so that no two parameters collide.
const prefix = "koala_"

// partOf returns the part of a request for a parameter.
func partOf(parameter string) string {
	switch {
	case slices.Contains(own, parameter):
		return parameter
	case slices.Contains(others, strings.ToLower(parameter)), strings.HasPrefix(parameter, prefix):
		return prefix + parameter
	}
	return parameter
}

// ErrInvalid means that a request has an invalid parameter; the text names it.
var ErrInvalid = errors.New("koala: invalid request")

// asTheyAre reports whether params can be used as a request's attributes unchanged. This is the common case, and saving a map makes it as
// fast as requests of admission.
func (params Params) asTheyAre() bool {
	const trimmed = blanks + "\n"
	for name, value := range params {
		switch {
		case name == "" || name[0] == '_' || value == "":
			return false
		case strings.IndexByte(trimmed, value[0]) >= 0 || strings.IndexByte(trimmed, value[len(value)-1]) >= 0:
			return false
		case len(name) >= len(prefix) || othersLong[len(name)]:
			if slices.Contains(own, name) || partOf(name) != name {
				return false
			}
		}
	}
	return true
}

// othersLong flags the lengths of others, below that of prefix.
var othersLong = func() (long [len(prefix)]bool) {
	for _, name := range others {
		if len(name) < len(long) {
			long[len(name)] = true
		}
	}
	return long
}()

// request converts params to a request. Whitespace around values is ignored.
func (p *policy) request(params Params) (admission.Request, error) {
	if params.asTheyAre() {
		return admission.Request{Attributes: params}, nil
	}
	req := admission.Request{Attributes: make(map[string]string, len(params))}
	for name, value := range params {
		value = strings.Trim(value, blanks+"\n")
		if value == "" || strings.HasPrefix(name, "_") {
			continue
		}
		switch name {
		case "user":
			req.User = value
		case "device":
			req.Device = value
		case "session":
			req.Session = value
		case "ip":
			ip, err := netip.ParseAddr(value)
			if err != nil && p.asksIP {
				return req, fmt.Errorf("%w: ip must be an address such as 192.0.2.1 or 2001:db8::1, got %.60q", ErrInvalid, value)
			}
			req.IP = ip
		default:
			req.Attributes[partOf(name)] = value
		}
	}
	return req, nil
}
