-- What every script begins with. A script is this file, the algorithms and the parts that its tallies need, and decide.lua.

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- How windows count, by the word of admission.Algorithm. An algorithm has these functions of a tally t; only the last three write:
--
--   arguments(t, at, keys)  reads further arguments of its own from `arguments` at `at` and from KEYS after `keys`, and returns
--                           where the next ones begin; may be missing
--   read(t, now)            sets word, remaining, retry_after, reset_after, and whatever the others need
--   charge(t)               counts t.cost; sets remaining, reset_after and stamp
--   reject(t)               counts a request that was refused; t is to be read again
--   refund(t, stamp, now)   takes t.cost back from what was charged at stamp; t is to be read again
--
-- States are packed, so that one GET and one SET do: a third of the time of a LIST or a ZSET, and half the memory.
local algorithms = {}

local strikes, requests -- parts that a script may lack

-- Of the call that is being decided:
local arguments  -- packed, see decide.lua
local request    -- the hash of its own id, or empty
local now        -- µs
local wrong_span -- true: a span of the calendar was sent that does not hold now

-- Writes a state that means nothing any more in `left` µs. The key outlives it by a second, so that it is never Redis'
-- expiry, which is a little coarse, that ends it. (redis.call formats numbers so that no digit is lost below 2^53.)
local function save(key, state, left)
  call('PSETEX', key, ceil(left / 1000) + 1000, state)
end
