package captcha_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/alicebob/miniredis/v2"
	altcha "github.com/altcha-org/altcha-lib-go"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/captcha"
)

// A client that solved a challenge is admitted once.
func Example() {
	server, err := miniredis.Run() // in production, Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	used, err := captcha.NewRedisUsed(rdb, "shop")
	if err != nil {
		panic(err)
	}
	provider, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: []byte("16 random bytes or more"), Used: used, MaxNumber: 100})
	if err != nil {
		panic(err)
	}
	ctx, order := context.Background(), captcha.Binding{Purpose: "order", Subject: "ann"}
	challenge, err := provider.Challenge(ctx, order)
	if err != nil {
		panic(err)
	}
	token := solveInBrowser(challenge.JSON)
	for range 2 {
		switch err := provider.Verify(ctx, token, order, netip.Addr{}); {
		case err == nil:
			fmt.Println("admitted")
		case errors.Is(err, captcha.ErrRefused):
			fmt.Println(err)
		default:
			panic(err)
		}
	}
	// Output:
	// admitted
	// captcha: refused: used
}

// solveInBrowser does what the widget does.
func solveInBrowser(challenge []byte) string {
	var c altcha.Challenge
	if err := json.Unmarshal(challenge, &c); err != nil {
		panic(err)
	}
	s, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil {
		panic(err)
	}
	solved, _ := json.Marshal(altcha.Payload{Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(s.Number), Salt: c.Salt, Signature: c.Signature})
	return base64.StdEncoding.EncodeToString(solved)
}
