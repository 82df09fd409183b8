package redisscript

import (
	"slices"
	"strings"
)

// guarded puts a check in front of a script: whether the user of the connection may run each of its commands that writes, or that is one
// of reads: those that it may read with after its first write. Redis keeps the writes of a script that fails later, so a script must
// not begin what it may not finish. The other ways to fail:
//
//   - Redis checks the permission for KEYS before it runs the script. A user may have a command only for some keys, so the check asks for
//     the first key of the script; the others are in the same namespace.
//   - Without memory, with too few replicas or with a failed disk, Redis refuses the first write, and no later one.
//   - The script itself must check the types and the values of its keys before its first write.
//
// Servers without redis.acl_check_cmd, such as Redis 6.2, do not check.
func guarded(source string, reads []string) string {
	var commands []string
	for word, rest := "", source; rest != ""; { // between any two quotes, since a command is a word in them
		word, rest = beforeQuote(rest)
		if slices.Contains(writes, word) || slices.Contains(reads, word) {
			commands = append(commands, word)
		}
	}
	if len(commands) == 0 {
		return source
	}
	slices.Sort(commands)
	commands = slices.Compact(commands)
	for i, command := range commands {
		commands[i] = "'" + command + "', key"
		if command == "PUBLISH" {
			commands[i] = "'PUBLISH'" // to a channel, which is no key
		}
	}
	return "do local may, key = redis.acl_check_cmd, KEYS[1] or '' if may and not (may(" + strings.Join(commands,
		") and may(") + ")) then for _, call in ipairs({ { " +
		strings.Join(commands, " }, { ") + " } }) do if not may(unpack(call)) then return redis.error_reply(\"NOPERM this user has no " +
		"permission to run the command '\" .. call[1] .. \"', which a script needs; nothing was changed\") end end end end " +
		source
}

func beforeQuote(s string) (before, after string) {
	if i := strings.IndexAny(s, `'"`); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// writes are the commands that change keys, and PUBLISH.
var writes = strings.Fields(`
	APPEND BITFIELD BITOP BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN COPY DECR DECRBY DEL EXPIRE EXPIREAT FLUSHALL
	FLUSHDB GEOADD GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE GETDEL GETEX GETSET HDEL HEXPIRE HEXPIREAT HGETDEL HGETEX HINCRBY
	HINCRBYFLOAT HMSET HPERSIST HPEXPIRE HPEXPIREAT HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LMPOP LPOP LPUSH LPUSHX
	LREM LSET LTRIM MIGRATE MOVE MSET MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PFMERGE PSETEX PUBLISH RENAME RENAMENX RESTORE RPOP
	RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE SINTERSTORE SMOVE SORT SPOP SPUBLISH SREM SUNIONSTORE
	SWAPDB UNLINK XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XREADGROUP XSETID XTRIM ZADD ZDIFFSTORE ZINCRBY ZINTERSTORE ZMPOP ZPOPMAX
	ZPOPMIN ZRANGESTORE ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZUNIONSTORE`)
