package rehearse

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/judge"
)

// TestTheJudgeReadsWhatTheAPISends: the judge has types of its own, because those of the handlers need a server's packages.
func TestTheJudgeReadsWhatTheAPISends(t *testing.T) {
	for _, tt := range []struct{ read, sent reflect.Type }{
		{reflect.TypeFor[judge.Order](), reflect.TypeFor[sales.OrderView]()},
		{reflect.TypeFor[judge.Event](), reflect.TypeFor[sales.EventView]()},
		{reflect.TypeFor[judge.Verification](), reflect.TypeFor[sales.Verification]()},
	} {
		for field := range tt.read.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			sent, ok := tt.sent.FieldByName(field.Name)
			if as, _, _ := strings.Cut(sent.Tag.Get("json"), ","); !ok || as != name {
				t.Errorf("%v reads %q, and %v sends %q", tt.read, name, tt.sent, as)
			}
			if sent.Type != field.Type && sent.Type != reflect.PointerTo(field.Type) {
				t.Errorf("%v reads %s as %v, and %v sends %v", tt.read, name, field.Type, tt.sent, sent.Type)
			}
		}
	}
}
