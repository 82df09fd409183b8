// Package lua has the scripts that change or read items in Redis. prelude.lua begins each of them but settle.lua, and describes the keys.
package lua

import (
	"embed"

	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed *.lua
var files embed.FS

// The scripts.
var (
	Reserve   = script("reserve")
	Settle    = scriptOf("settle", "try", "settle")
	Reject    = script("reject")
	Return    = script("return")
	Reassign  = script("reassign")
	Claim     = script("claim")
	Snapshot  = script("snapshot")
	Look      = script("look")
	Configure = script("configure")
	Lead      = script("lead")
	Seal      = script("seal")
	Load      = script("load")
	Open      = script("open")
	Drop      = script("drop")
	Introduce = script("introduce")
	Verify    = script("verify")
	Find      = script("find")
	Held      = script("held")
	Admit     = script("admit")
	Supply    = script("supply")
)

func script(name string) *redisscript.Script {
	return scriptOf(name, "try", "prelude", name)
}

func scriptOf(name string, parts ...string) *redisscript.Script {
	return redisscript.Repeatable("orders "+name, redisscript.Join(files, parts...))
}
