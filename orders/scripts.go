package orders

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

var (
	reserveScript   = script("reserve")
	settleScript    = script("settle")
	rejectScript    = script("reject")
	returnScript    = script("return")
	reassignScript  = script("reassign")
	claimScript     = script("claim")
	snapshotScript  = script("snapshot")
	configureScript = script("configure")
	leadScript      = script("lead")
	sealScript      = script("seal")
	loadScript      = script("load")
	openScript      = script("open")
	dropScript      = script("drop")
	introduceScript = script("introduce")
	verifyScript    = script("verify")
	findScript      = script("find")
	heldScript      = script("held")
	admitScript     = script("admit")
	supplyScript    = script("supply")
)

func script(name string) *redis.Script {
	source := ""
	for _, file := range []string{"prelude", name} {
		text, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // the file is part of the program
		}
		source += string(text)
	}
	return redis.NewScript(source)
}
