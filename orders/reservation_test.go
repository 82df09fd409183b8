package orders

import (
	"encoding/json"
	"testing"
)

func FuzzReservation(f *testing.F) {
	f.Add([]byte(`{"id":"01a1fbda-8d06-8000-8005-cdb33dafed12","e":1,"s":"s","i":"i","h":"h","k":"","q":1,"u":[1],"t":1}`))
	f.Add([]byte(`{"id":"01a1fbda-8d06-8000-8005-cdb33dafed12","e":-1,"s":"","i":"\\<\u2028","b":"Zoë & \"co\"\t\u007f","h":"h","k":"","q":1,"u":[1,2],"t":1}`))
	f.Add([]byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		r, err := ParseReservation(record)
		if err != nil || r.ID.Item() == 0 && r.ID == (ID{}) {
			return
		}
		if len(r.Units) == 0 {
			return
		}
		again, err := ParseReservation([]byte(r.Record()))
		if err != nil || again.Record() != r.Record() {
			t.Errorf("%s is written as %s, %v", record, r.Record(), err)
		}
		r.AcceptedMS = max(1, r.AcceptedMS) // encoding/json leaves out 0
		if text, err := json.Marshal(r); err != nil || string(text) != r.Record() {
			t.Errorf("%s is written as %s, and encoding/json writes %s, %v", record, r.Record(), text, err)
		}
	})
}
