package shop

import (
	"embed"

	"github.com/tidegate/tidegate/internal/redisscript"
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
	lookScript      = script("look")
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

func script(name string) *redisscript.Script {
	return redisscript.Repeatable("orders "+name, redisscript.Join(lua, "try", "lua/prelude", "lua/"+name))
}
