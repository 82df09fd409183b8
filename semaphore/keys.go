package semaphore

import "strings"

// All keys of this package. TAG is the hash tag of the name with its colon, so that a name without one is in the slot of {:}. P stands for
// <namespace>:s:{TAG}:
//
//	key                type  TTL                                    holds
//	P<name>            HASH  none: it is the definition             limit, lease, version, last token, run of Redis, counts
//	P<name>:holders    ZSET  the longest lease and a minute, as     permits by when their lease ends, µs: the truth
//	P<name>:entries    HASH  have all that follow                   what is known of each permit and waiter
//	P<name>:weights    HASH                                         weights of permits above 1
//	P<name>:queue      ZSET                                         waiters by their place
//	P<name>:processes  ZSET                                         processes by when they were last heard of, µs
//
//	channel <namespace>:s:process:<process>, on a cluster Pprocess:<process>
//
// What is said there: "come KEY NAME": ask again, there is a permit; "lost KEY TOKEN NAME": somebody else has released it; "look NAME": beat.
// A definition that was taken back ends like the others. <name> is without its tag.

func (l *lane) keys(keys []string, name string) []string {
	if _, rest, tagged := strings.Cut(name, ":"); tagged {
		name = rest
	}
	key := l.prefix + name
	return append(keys, key, key+":holders", key+":entries", key+":weights", key+":queue", key+":processes")
}

// channels is what the channel of every process begins with: one for all semaphores, or on a cluster for those of a slot.
func (l *lane) channels() string {
	if l.set.sharded {
		return l.prefix + "process:"
	}
	return l.set.opts.Namespace + ":s:process:"
}

func (l *lane) channel() string { return l.channels() + l.set.process }
