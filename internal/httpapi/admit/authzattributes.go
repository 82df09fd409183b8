package admit

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// attributeField is the prefix of fields in which a gateway sends further attributes of its client's request. Field names are
// case-insensitive, so the attributes' names are in lower case.
const attributeField = "X-Tidegate-Attribute-"

// placeOf are parts of a request that gateways send in other fields.
var placeOf = map[string]string{
	"route": "X-Forwarded-Uri or X-Original-URI", "method": "X-Forwarded-Method or X-Original-Method", "host": "X-Forwarded-Host",
	"user": "X-User-ID", "tier": "X-User-Tier", "ip": "X-Forwarded-For", "caller": "X-User-ID", "network": "X-Forwarded-For",
}

// readAttributes sets the request's device, session and attributes from those fields. Empty fields are ignored.
func readAttributes(header http.Header, req *admission.Request) error {
	for field, values := range header {
		name, ok := strings.CutPrefix(field, attributeField)
		if !ok {
			continue
		}
		name = strings.ToLower(name)
		at := "header." + field
		switch {
		case len(values) != 1:
			return problem.InvalidAt(at, fmt.Sprintf("must be sent once by the gateway, got %d: one of them may be its client's", len(values)))
		case placeOf[name] != "":
			return problem.InvalidAt(at, "is not an attribute; the gateway must send it in "+placeOf[name])
		case name == "" || len(name) > maxAttributeName:
			return problem.InvalidAt(at, fmt.Sprintf("%sNAME must have a name of 1 to %d bytes", attributeField, maxAttributeName))
		case len(values[0]) > maxAttributeValue:
			return problem.InvalidAt(at, fmt.Sprintf("must have at most %d bytes, got %d", maxAttributeValue, len(values[0])))
		case values[0] == "":
		case name == "device":
			req.Device = values[0]
		case name == "session":
			req.Session = values[0]
		default:
			if req.Attributes == nil {
				req.Attributes = map[string]string{}
			}
			if req.Attributes[name] = values[0]; len(req.Attributes) > maxAttributes {
				return problem.InvalidAt(at, fmt.Sprintf("must be one of at most %d attributes", maxAttributes))
			}
		}
	}
	return nil
}
