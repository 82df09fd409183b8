package koala

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/admission"
)

// Params are the parameters of a request, by name. Those that begin with _ are for the service and not for rules.
type Params map[string]string

// own are the parameters that requests have a part for, with the same meaning.
var own = []string{"user", "ip", "device", "session"}

// texts are those of them that are no addresses, as other parameters may be.
var texts = []string{"user", "device", "session"}

// others are names that requests have for something else, however they are written.
var others = []string{"user", "ip", "device", "session", "route", "method", "tier", "caller", "network"}

// prefix keeps the names of others apart. What has it already gets another one, so that no two parameters become one.
const prefix = "koala_"

// partOf is the part of a request that a parameter becomes.
func partOf(parameter string) string {
	switch {
	case slices.Contains(own, parameter):
		return parameter
	case slices.Contains(others, strings.ToLower(parameter)), strings.HasPrefix(parameter, prefix):
		return prefix + parameter
	}
	return parameter
}

// ErrInvalid means that a request has a parameter that nothing can be made of; the text names it.
var ErrInvalid = errors.New("koala: invalid request")

// asTheyAre tells whether a request can have all parameters as attributes, with the same names and values. Most have no others, and a map less
// to make is what makes them as fast as requests of admission.
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

// othersLong are the lengths of others, up to that of prefix.
var othersLong = func() (long [len(prefix)]bool) {
	for _, name := range others {
		if len(name) < len(long) {
			long[len(name)] = true
		}
	}
	return long
}()

// request is what rules look at. Blanks around values do not count.
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
				return req, fmt.Errorf("%w: ip is %.60q, should be an address such as 192.0.2.1 or 2001:db8::1", ErrInvalid, value)
			}
			req.IP = ip
		default:
			req.Attributes[partOf(name)] = value
		}
	}
	return req, nil
}
