package problem

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Encoded is the encoding of every member, also where it uses the body that was encoded before.
func TestEncodedHasEveryMember(t *testing.T) {
	members := reflect.TypeFor[Problem]()
	for i := range members.NumField() {
		p := New("sold_out")
		f := members.Field(i)
		if f.Name == "_" || f.Tag.Get("json") == "-" || f.Name == "Type" || f.Name == "Title" { // the last two belong to the reason
			continue
		}
		field := reflect.ValueOf(p).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("other")
		case reflect.Int:
			field.SetInt(999)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			t.Fatalf("%s is a %s, which this test does not set", f.Name, field.Kind())
		}
		got, err := p.Encoded()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := json.Marshal(p); err != nil || string(got) != string(want) {
			t.Errorf("%s: %s, want %s, %v", f.Name, got, want, err)
		}
	}
}

func TestEncodedOncePerKind(t *testing.T) {
	for _, reason := range slices.Sorted(maps.Keys(kindOf)) {
		p := New(reason)
		p.RetryAfter = time.Minute // is a header
		got, err := p.Encoded()
		if err != nil || &got[0] != &kindOf[reason].body[0] {
			t.Errorf("%s is encoded again, %v", reason, err)
		}
	}
}
