-- The beginning of every script, after try.lua. A script is this file, the algorithms and parts that its tallies need, and decide.lua.

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- The algorithms, by their name in store.Algorithm. An algorithm has these functions of a tally t; only the last three write:
--
--   arguments(t, at, keys)  reads additional arguments from `arguments` at `at` and from KEYS after `keys`, and returns
--                           the next positions; may be missing
--   read(t, now)            sets word, remaining, retry_after, reset_after, and the fields that the others need
--   charge(t)               counts t.cost; sets remaining, reset_after and stamp
--   reject(t)               counts a refused request; t must be read again
--   refund(t, stamp, now)   takes t.cost back from what was charged at stamp; t must be read again
--
-- A stamp from the future is from before the clock was set back. Up to `step` ahead its time is waited for, as after a failover to a server
-- whose clock is a little behind; further ahead, read cuts it to the most that can be counted now, and writes that.
--
-- States are packed, so that one GET and one SET suffice: this takes a third of the time of a LIST or a ZSET, and half the memory.
local algorithms = {}

local step = 1000000 -- µs

local strikes, requests -- parts that a script may lack

-- State of the current call:
local arguments  -- packed, see decide.lua
local request    -- the hash of its request's id, or empty
local now        -- µs
local wrong_span -- true: a calendar span was sent that does not contain now

-- Returns the state in a key, or nil if there is none of this size. What cannot be a state counts as none, and the next write replaces it:
-- otherwise one damaged key would stop all requests of a subject.
local function state_of(key, size)
  local state = redis.pcall('GET', key)
  if state and #state == size then return state end
  if state and state.err then try('GET', key) end -- ends the script with the error, unless the key is of another type
end

-- Writes a state that expires in `left` µs. The key has one second more, so that the exact end is decided by the script and not by Redis'
-- coarser expiry. (redis.call formats numbers below 2^53 without loss.)
local function save(key, state, left)
  call('PSETEX', key, ceil(left / 1000) + 1000, state)
end
