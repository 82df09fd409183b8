// The program calls every operation of two generated clients, in the order of a life: what one makes, the others use. It ends with status 1
// if a client refuses an answer, if an answer has another status than expected here, or if an operation was not called.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ogen-go/ogen/ogenerrors"

	internalclient "github.com/tidegate/tidegate/contract/internalclient"
	publicclient "github.com/tidegate/tidegate/contract/publicclient"
)

func main() {
	if err := live(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// security sends the token of an operator.
type security string

func (s security) Header(context.Context, internalclient.OperationName) (internalclient.Header, error) {
	return internalclient.Header{APIKey: string(s)}, nil
}

func (security) Bearer(context.Context, internalclient.OperationName) (b internalclient.Bearer, err error) {
	return b, ogenerrors.ErrSkipClientSecurity
}

func (security) Basic(context.Context, internalclient.OperationName) (b internalclient.Basic, err error) {
	return b, ogenerrors.ErrSkipClientSecurity
}

func (security) Cookie(context.Context, internalclient.OperationName) (b internalclient.Cookie, err error) {
	return b, ogenerrors.ErrSkipClientSecurity
}

// wire is the HTTP client of a generated client. It remembers the last answer, and ends a stream after its first event.
type wire struct {
	status int
	body   []byte
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	w.status = resp.StatusCode
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		w.body = make([]byte, 64)
		n, _ := resp.Body.Read(w.body)
		w.body = w.body[:n]
	} else if w.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(w.body))
	return resp, nil
}

// A caller calls the operations of a client by their names.
type caller struct {
	name   string
	client reflect.Value
	wire   *wire
	called map[string]bool
	failed []string
}

// object is a JSON object, or the parameters of an operation by their names in Go.
type object = map[string]any

// call calls an operation, whose answer must have the status, and returns the JSON of the answer. While the
// store of a busy machine does not answer in time, it calls again.
func (c *caller) call(operation string, status int, parameters object, body string) (answer object) {
	c.called[operation] = true
	method := c.client.MethodByName(operation)
	if !method.IsValid() {
		c.failed = append(c.failed, operation+" is not an operation")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	arguments := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.Type().NumIn(); i++ {
		of := method.Type().In(i)
		value := reflect.New(of)
		if strings.HasSuffix(of.Name(), "Params") {
			for name, parameter := range parameters {
				field := value.Elem().FieldByName(name)
				if !field.IsValid() {
					c.failed = append(c.failed, operation+" has no parameter "+name)
					return nil
				}
				set(field, parameter)
			}
		} else if body != "" {
			if err := json.Unmarshal([]byte(body), value.Interface()); err != nil {
				c.failed = append(c.failed, operation+": the client refuses the request: "+err.Error())
				return nil
			}
		}
		arguments = append(arguments, value.Elem())
	}
	for try := 0; ; try++ {
		results := method.Call(arguments)
		if c.wire.status == http.StatusServiceUnavailable && status != c.wire.status && try < 100 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err, _ := results[len(results)-1].Interface().(error); err != nil {
			c.failed = append(c.failed, fmt.Sprintf("%s %s: %d %v: %.300s", c.name, operation, c.wire.status, err, c.wire.body))
		} else if c.wire.status != status {
			c.failed = append(c.failed, fmt.Sprintf("%s %s: %d, want %d: %.300s", c.name, operation, c.wire.status, status, c.wire.body))
		}
		_ = json.Unmarshal(c.wire.body, &answer) // nil where it is something else
		return answer
	}
}

// set sets a field of parameters, which may be optional.
func set(field reflect.Value, v any) {
	switch field.Kind() {
	case reflect.Struct:
		set(field.FieldByName("Value"), v)
		field.FieldByName("Set").SetBool(true)
	case reflect.Slice:
		field.Set(reflect.Append(field, reflect.ValueOf(v).Convert(field.Type().Elem())))
	default:
		field.Set(reflect.ValueOf(v).Convert(field.Type()))
	}
}

// missing returns the operations that were not called.
func (c *caller) missing() (missing []string) {
	for m := range c.client.Type().Methods() {
		if !c.called[m.Name] {
			missing = append(missing, c.name+" "+m.Name+" was not called")
		}
	}
	return missing
}

func text(v any) string { return fmt.Sprint(v) }

func live(public, internal, token string) error {
	outside, inside := &wire{}, &wire{}
	buyers, err := publicclient.NewClient(public, publicclient.WithClient(outside))
	if err != nil {
		return err
	}
	operators, err := internalclient.NewClient(internal, security(token), internalclient.WithClient(inside))
	if err != nil {
		return err
	}
	shop := &caller{name: "public", client: reflect.ValueOf(buyers), wire: outside, called: map[string]bool{}}
	back := &caller{name: "internal", client: reflect.ValueOf(operators), wire: inside, called: map[string]bool{}}
	documents(shop, back)
	sales(shop, back)
	rooms(shop, back)
	decisions(back)
	permits(back)
	logins(shop, back)
	koala(back)
	back.call("ListAudit", 200, nil, "")
	back.call("CloseSale", 200, object{"Sale": "gala"}, "")
	wrong := slices.Concat(shop.failed, back.failed, shop.missing(), back.missing())
	if len(wrong) > 0 {
		return fmt.Errorf("%d are wrong:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	fmt.Printf("%d public and %d internal operations\n", len(shop.called), len(back.called))
	return nil
}

func documents(shop, back *caller) {
	for _, c := range []*caller{shop, back} {
		c.call("Livez", 200, nil, "")
		c.call("Readyz", 200, nil, "")
		c.call("Openapi", 200, nil, "")
		c.call("Docs", 200, nil, "")
		c.call("Problem", 200, object{"Name": "sold-out"}, "")
		c.call("Problem", 404, object{"Name": "none"}, "")
	}
	back.call("Metrics", 200, nil, "")
	back.call("Page", 200, nil, "")
	back.call("PageAssets", 200, object{"Path": "main.js"}, "")
	back.call("PageAssets", 404, object{"Path": "none.js"}, "")
	back.call("Events", 200, nil, "")
	back.call("GetSession", 200, nil, "")
	back.call("BeginSession", 200, nil, `{"token":"a-token-of-the-contract"}`)
	back.call("BeginSession", 401, nil, `{"token":"another-token-of-the-contract"}`)
	back.call("EndSession", 204, nil, "")
}

func sales(shop, back *caller) {
	now := time.Now().UTC()
	definition := fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"items":[{"item":"shoe","stock":2,"quota_per_buyer":2}]}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	back.call("PutSale", 201, object{"Sale": "gala"}, definition)
	back.call("PutSale", 200, object{"Sale": "gala"}, definition)
	back.call("PutItem", 201, object{"Sale": "gala", "Item": "hat"}, `{"stock":1}`)
	back.call("PutItem", 200, object{"Sale": "gala", "Item": "hat"}, `{"stock":2}`)
	back.call("PutItem", 409, object{"Sale": "gala", "Item": "hat"}, `{"stock":1}`)
	back.call("PutItem", 404, object{"Sale": "none", "Item": "hat"}, `{"stock":1}`)
	back.call("OpenSale", 200, object{"Sale": "gala"}, "")
	back.call("PauseSale", 200, object{"Sale": "gala"}, "")
	back.call("OpenSale", 200, object{"Sale": "gala"}, "")
	back.call("ListSales", 200, nil, "")
	shop.call("GetSale", 404, object{"Sale": "none"}, "")
	for range 200 {
		if shop.call("GetSale", 200, object{"Sale": "gala"}, "")["state"] == "open" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	back.call("GetSale", 200, object{"Sale": "gala"}, "")

	ann := object{"Sale": "gala", "XUserID": "ann", "IdempotencyKey": "the-first-order-of-ann"}
	shop.call("PlaceOrder", 401, object{"Sale": "gala", "IdempotencyKey": "an-order-of-nobody-at-all"}, `{"item":"shoe"}`)
	shop.call("PlaceOrder", 404, ann, `{"item":"none"}`)
	order := text(shop.call("PlaceOrder", 202, ann, `{"item":"shoe"}`)["order_id"])
	shop.call("PlaceOrder", 202, ann, `{"item":"shoe"}`)
	shop.call("PlaceOrder", 422, ann, `{"item":"shoe","quantity":2}`)
	other := text(back.call("PlaceOrder", 202, object{"Sale": "gala", "XUserID": "bob", "IdempotencyKey": "the-first-order-of-bob"},
		`{"item":"shoe"}`)["order_id"])
	shop.call("PlaceOrder", 409, object{"Sale": "gala", "XUserID": "eve", "IdempotencyKey": "the-first-order-of-eve"}, `{"item":"shoe"}`)
	shop.call("GetOrder", 200, object{"ID": order, "XUserID": "ann", "WaitMs": 10_000}, "")
	shop.call("GetOrder", 404, object{"ID": order, "XUserID": "bob"}, "")
	back.call("GetOrder", 200, object{"ID": other, "WaitMs": 10_000}, "")
	shop.call("ListOwnOrders", 200, object{"Sale": "gala", "XUserID": "ann"}, "")
	back.call("ListOrders", 200, object{"Sale": "gala"}, "")
	back.call("PayOrder", 200, object{"ID": order}, `{"reference":"charge-1","outcome":"captured"}`)
	shop.call("CancelOrder", 409, object{"ID": order, "XUserID": "ann"}, "")
	back.call("CancelOrder", 200, object{"ID": other}, "")
	back.call("OrderEvents", 200, nil, "")
	back.call("OrdersCsv", 200, object{"Sale": "gala"}, "")
	back.call("OrdersCsv", 404, object{"Sale": "none"}, "")
	back.call("ListDeadLetters", 200, nil, "")
	back.call("ReplayDeadLetter", 200, object{"ID": order}, "")
	back.call("VerifySale", 200, object{"Sale": "gala"}, "")
	back.call("RebuildSale", 200, object{"Sale": "gala"}, "")
}

func rooms(shop, back *caller) {
	past, soon := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	door := fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"rate_per_min":1000,"requires_user":false,"continue_url":"/buy"}`, past)
	back.call("PutRoom", 201, object{"Room": "door"}, door)
	back.call("PutRoom", 200, object{"Room": "door"}, door)
	back.call("PutRoom", 201, object{"Room": "draw"},
		fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q,"rate_per_min":1,"beacon":"drand"}`, past, soon))
	back.call("ListRooms", 200, nil, "")
	back.call("HoldRoom", 200, object{"Room": "door"}, `{"reason":"a test"}`)
	back.call("ResumeRoom", 200, object{"Room": "door"}, "")
	back.call("MessageRoom", 200, object{"Room": "door"}, `{"message":"soon"}`)
	back.call("RateRoom", 200, object{"Room": "door"}, `{"rate_per_min":2000}`)
	back.call("AdvanceRoom", 200, object{"Room": "door"}, `{"by":10}`)
	back.call("DrawRoom", 409, object{"Room": "draw"}, "")
	back.call("BeaconRoom", 422, object{"Room": "draw"}, fmt.Sprintf(`{"round":1,"signature":%q}`, strings.Repeat("a", 96)))
	for user, c := range map[string]*caller{"ann": shop, "bob": back} {
		at := object{"Room": "door", "XUserID": user}
		c.call("GetRoom", 200, object{"Room": "door"}, "")
		c.call("GetRoom", 404, object{"Room": "none"}, "")
		c.call("GetPlace", 404, at, "")
		c.call("JoinRoom", 201, at, "")
		c.call("JoinRoom", 200, at, `{"quantity":1}`)
		for range 200 {
			if c.call("GetPlace", 200, at, "")["state"] == "turn" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		c.call("ClaimTurn", 200, at, "")
		c.call("LeaveRoom", 204, at, "")
		c.call("RoomEvents", 200, object{"Room": "door"}, "")
		c.call("DrawCsv", 409, object{"Room": "draw"}, "")
		c.call("PassKeys", 200, nil, "")
		c.call("ReceiptKeys", 200, nil, "")

		event := object{"EventID": "door"}
		id := text(c.call("VwrAssignQueueNum", 200, object{"XUserID": "vwr-" + user}, `{"event_id":"door"}`)["api_request_id"])
		c.call("VwrServingNum", 200, event, "")
		c.call("VwrWaitingNum", 200, event, "")
		c.call("VwrWaitingNum", 400, object{"EventID": "none"}, "")
		c.call("VwrPublicKey", 200, event, "")
		place, who := object{"EventID": "door", "RequestID": id}, object(nil)
		if c == shop { // a user's request id is good for that user
			who = object{"XUserID": "vwr-" + user}
			place["XUserID"] = who["XUserID"]
		}
		c.call("VwrQueueNum", 200, place, "")
		for range 200 {
			if c.call("VwrQueuePosExpiry", 200, place, ""); c.wire.status == http.StatusOK {
				break
			}
			c.failed = c.failed[:len(c.failed)-1] // it is not served yet
			time.Sleep(50 * time.Millisecond)
		}
		body := fmt.Sprintf(`{"event_id":"door","request_id":%q}`, id)
		c.call("VwrGenerateToken", 200, who, body)
		if c == back {
			c.call("VwrNumActiveTokens", 200, event, "")
			c.call("VwrUpdateSession", 200, nil, strings.Replace(body, "{", `{"status":1,`, 1))
			c.call("VwrExpiredTokens", 200, event, "")
			c.call("VwrIncrementServingCounter", 200, nil, `{"event_id":"door","increment_by":1}`)
			c.call("VwrResetInitialState", 422, nil, `{"event_id":"door"}`)
		}
	}
	shop.call("RoomPage", 200, object{"Room": "door"}, "")
	shop.call("RoomPageSlash", 200, object{"Room": "door"}, "")
	shop.call("RoomPage", 404, object{"Room": "none"}, "")
	shop.call("RoomFiles", 200, object{"Path": "room.js"}, "")
	shop.call("RoomFiles", 200, object{"Path": "room.css"}, "")
	shop.call("RoomFiles", 404, object{"Path": "none"}, "")
	back.call("ListPlaces", 200, object{"Room": "door"}, "")
	back.call("PlacesCsv", 200, object{"Room": "door"}, "")
	back.call("VerifyRoom", 200, object{"Room": "door"}, "")
	back.call("CloseRoom", 200, object{"Room": "door"}, "")
}

func decisions(back *caller) {
	back.call("GetRules", 200, nil, "")
	back.call("ReloadRules", 200, nil, "")
	back.call("Admit", 200, nil, `{"subject":{"user":"ann","ip":"192.0.2.1"},"attributes":{"route":"/guarded","size":3,"new":true}}`)
	back.call("Admit", 200, nil, `{"subject":{"ip":"192.0.2.1"},"attributes":{"route":"/guarded"}}`)
	back.call("AdmitBatch", 200, nil, `{"requests":[{},{"mode":"refund","request_id":"none"}]}`)
	back.call("Explain", 200, object{"User": "ann", "IP": "192.0.2.1", "Attribute": "size:3"}, "")
	ban := object{"Kind": "network", "Value": "203.0.113.0/24"}
	back.call("PutBan", 200, ban, `{"for_ms":60000,"reason":"a test"}`)
	back.call("ListBans", 200, nil, "")
	back.call("DeleteBan", 204, ban, "")
	back.call("DeleteBan", 404, ban, "")
	for range 200 { // the history is written in the background
		if items, _ := back.call("BanHistory", 200, nil, "")["items"].([]any); len(items) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		back.call("Authz"+method, 200, object{"XForwardedURI": "/buy", "XForwardedMethod": "GET", "XForwardedFor": "192.0.2.1"}, "")
		back.call("AuthzBelow"+method, 200, object{"Path": "buy", "XForwardedFor": "192.0.2.1"}, "")
	}
	back.call("AuthzGET", 403, object{"XForwardedURI": "/buy", "XForwardedFor": "192.0.2.1", "Room": "draw", "Deny": "403"}, "")
}

func permits(back *caller) {
	printer := object{"Name": "printer"}
	back.call("ListSemaphores", 200, nil, "")
	back.call("GetSemaphore", 200, printer, "")
	back.call("GetSemaphore", 404, object{"Name": "none"}, "")
	permit := object{"Name": "printer", "ID": text(back.call("AcquirePermit", 201, printer, `{"holder":"a","weight":2}`)["permit_id"])}
	back.call("AcquirePermit", 503, printer, `{"holder":"b"}`)
	back.call("GetSemaphore", 200, printer, "")
	back.call("RenewPermit", 200, permit, "")
	back.call("ReleasePermit", 204, permit, "")
	back.call("RenewPermit", 410, permit, "")
	back.call("PutSemaphore", 200, printer, `{"limit":3}`)
	back.call("RevertSemaphore", 200, printer, "")
}

func logins(shop, back *caller) {
	attempt := `{"name":"ann","ip":"192.0.2.7"}`
	id := object{"ID": text(back.call("LoginAttempt", 200, nil, attempt)["attempt_id"])}
	back.call("LoginOutcome", 200, id, `{"result":"success"}`)
	back.call("LoginOutcome", 409, id, `{"result":"failure"}`)
	back.call("LoginSubjects", 200, object{"Name": "ann", "IP": "192.0.2.7"}, "")
	back.call("LoginHistory", 200, nil, "")
	back.call("LiftLoginSubject", 204, object{"Name": "ann"}, "")
	for _, c := range []*caller{shop, back} {
		c.call("CaptchaChallenge", 200, object{"Purpose": "order"}, "")
	}
}

func koala(back *caller) {
	of := object{"Parameters": map[string]string{"act": "post", "uid": "7"}}
	back.call("KoalaRuleUpdate", 200, of, "")
	back.call("KoalaRuleBrowse", 200, of, "")
	back.call("KoalaRuleBrowseComplete", 200, of, "")
	back.call("KoalaRuleFeedback", 200, of, "")
	back.call("KoalaRuleValue", 200, object{"Parameters": of["Parameters"], "RuleNo": "202"}, "")
	back.call("KoalaMultiBrowse", 200, object{"ArgsJson": `[{"Id":"1","Arg":"act=ask&uid=7"}]`}, "")
	back.call("KoalaMultiBrowse", 400, object{"ArgsJson": `x`}, "")
	back.call("KoalaDumpCounter", 200, nil, "")
	back.call("KoalaDumpPolicy", 200, nil, "")
	back.call("KoalaMonitorAlive", 200, nil, "")
}
