package semaphore

import "strings"

// All keys of this package. TAG is the hash tag of the name with its colon; a name without a tag is in the slot of {:}. P stands for
// <namespace>:s:{TAG}:
//
//	key                type  TTL                                    holds
//	P<name>            HASH  none while the semaphore is defined    limit, lease, version, last token, run id of Redis, counts
//	P<name>:holders    ZSET  the longest lease and a minute,        permits by the end of their lease, µs: authoritative
//	P<name>:entries    HASH  for this key and all that follow       data of each permit and waiter
//	P<name>:weights    HASH                                         weights of permits above 1
//	P<name>:queue      ZSET                                         waiters by their place
//	P<name>:processes  ZSET                                         processes by the time of their last message, µs
//
//	channel <namespace>:s:process:<process>, on a cluster Pprocess:<process>
//
// Messages: "come KEY NAME": a permit is available, ask again; "lost KEY TOKEN NAME": another caller has released the permit; "look
// NAME": send a heartbeat. The key of a removed definition expires like the others. <name> is without its tag.

func (sh *shard) keys(keys []string, name string) []string {
	if _, rest, tagged := strings.Cut(name, ":"); tagged {
		name = rest
	}
	key := sh.prefix + name
	return append(keys, key, key+":holders", key+":entries", key+":weights", key+":queue", key+":processes")
}

// channels returns the prefix of every process' channel: the same for all semaphores, or on a cluster for those of one slot.
func (sh *shard) channels() string {
	if sh.set.sharded {
		return sh.prefix + "process:"
	}
	return sh.set.opts.Namespace + ":s:process:"
}

func (sh *shard) channel() string { return sh.channels() + sh.set.process }
