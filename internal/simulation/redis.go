package simulation

import (
	"bufio"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// redisServer is Redis, or a master of a cluster. Its run id changes when it is restarted.
type redisServer struct {
	*miniredis.Miniredis
	number  int            // in the cluster
	cluster []*redisServer // all masters of it; one for Redis without a cluster
	run     atomic.Int64
	failIn  atomic.Int64 // a script is refused once in so many; 0: never
	failing *chance
	copies  int // databases used for copies

	extended sync.Map // hashes of scripts with library struct, by those of the scripts
}

//go:embed struct.lua
var structLua string

// startRedis starts one server, or the masters of a cluster.
func startRedis(number int, failing *chance) (all []*redisServer, err error) {
	all = make([]*redisServer, number)
	for i := range all {
		r := &redisServer{Miniredis: miniredis.NewMiniRedis(), number: i, cluster: all, failing: failing}
		all[i] = r
		conn, err := r.Dial() // starts it
		if err != nil {
			return nil, err
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
		r.ClockTTL(true)
		r.Server().SetPreHook(r.hook)
	}
	return all, nil
}

const redisPort = 6379

func (r *redisServer) host() string { return fmt.Sprintf("redis-%d", r.number) }

func (r *redisServer) hook(peer *server.Peer, cmd string, args ...string) bool {
	r.extend(cmd, args)
	switch {
	case cmd == "INFO":
		mode := "standalone"
		if len(r.cluster) > 1 {
			mode = "cluster"
		}
		peer.WriteBulk(fmt.Sprintf("run_id:%020d%020d\r\nredis_mode:%s\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n"+
			"evicted_keys:0\r\naof_enabled:0\r\n", r.number, r.run.Load(), mode))
		return true
	case cmd == "CLUSTER" && len(args) == 1 && strings.EqualFold(args[0], "SLOTS"):
		r.writeSlots(peer)
		return true
	case cmd == "SSUBSCRIBE", cmd == "SUNSUBSCRIBE", cmd == "SPUBLISH": // the owner of the channel's slot gets all of them
		r.Server().Dispatch(peer, append([]string{cmd[1:]}, args...))
		return true
	case cmd == "PUBLISH" && len(args) == 2:
		for _, other := range r.cluster {
			if other != r {
				go other.Publish(args[0], args[1]) // over the bus of the cluster
			}
		}
	case strings.HasPrefix(cmd, "EVAL") && len(args) > 0 && args[0] != copyScript && r.failing.oneIn(int(r.failIn.Load())):
		peer.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
		return true
	}
	return false
}

// slots is how many hash slots a cluster has.
const slots = 1 << 14

// writeSlots writes which master has which slots.
func (r *redisServer) writeSlots(peer *server.Peer) {
	peer.WriteLen(len(r.cluster))
	for i, master := range r.cluster {
		peer.WriteLen(3)
		peer.WriteInt(i * slots / len(r.cluster))
		peer.WriteInt((i+1)*slots/len(r.cluster) - 1)
		peer.WriteLen(3)
		peer.WriteBulk(master.host())
		peer.WriteInt(redisPort)
		peer.WriteBulk(fmt.Sprintf("%040d", i))
	}
}

// extend gives scripts the library struct.
func (r *redisServer) extend(cmd string, args []string) {
	var text *string
	switch {
	case cmd == "EVALSHA" && len(args) > 0:
		if hash, ok := r.extended.Load(args[0]); ok {
			args[0] = hash.(string)
		}
		return
	case cmd == "EVAL" && len(args) > 0:
		text = &args[0]
	case cmd == "SCRIPT" && len(args) == 2:
		text = &args[1]
	}
	if text == nil || !strings.Contains(*text, "struct.") {
		return
	}
	hash := hashOf(*text)
	*text = structLua + *text
	r.extended.Store(hash, hashOf(*text))
}

func hashOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// forgetScripts has Redis lose its scripts, as it does when it restarts.
func (r *redisServer) forgetScripts() error { return r.command("SCRIPT", "FLUSH") }

// command runs one command. Methods of Miniredis have no lock, or hold it for one key.
func (r *redisServer) command(words ...string) error {
	conn, err := r.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(request.String())); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.HasPrefix(reply, "-") {
		err = fmt.Errorf("%s: %s", words[0], strings.TrimSpace(reply[1:]))
	}
	return err
}

// copy keeps what Redis has now, for follow.
func (r *redisServer) copy() (db int, err error) {
	r.copies++
	return r.copies, r.command("EVAL", copyScript, "0", strconv.Itoa(r.copies))
}

const copyScript = `for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', ARGV[1]) end`

// follow makes a copy what Redis has.
func (r *redisServer) follow(db int) {
	r.SwapDB(0, db)
	r.DB(db).FlushDB()
}
