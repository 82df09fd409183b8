package login_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

func Example() {
	throttle, err := login.New(login.NewMemoryStore(), rules.Default, login.Options{Secret: secret})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for _, password := range []string{"123456", "qwertz", "letmein", "correct"} {
		d, err := throttle.Reserve(ctx, login.Attempt{Name: "ann@shop.example", IP: netip.MustParseAddr("192.0.2.1")})
		if err != nil {
			panic(err)
		}
		if d.Action != login.Allow {
			fmt.Println(password, d.Action, d.Reason) // the password is not looked at
			continue
		}
		result := login.Failure
		if password == "correct" {
			result = login.Success
		}
		if _, err := throttle.Settle(ctx, d.ID, result); err != nil {
			panic(err)
		}
		fmt.Println(password, d.Action)
	}
	// Output:
	// 123456 allow
	// qwertz allow
	// letmein allow
	// correct challenge name_failures
}
