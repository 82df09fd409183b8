-- Adds rows of the database to an item that is being loaded.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 the leader's token, 2 counts that the leader has seen, 3 the last unit handed out; then four lists, each preceded by
--       its length:
--       keys and orders, holders, buyers and their entries, units that are free below the last
-- Reply {counts}, or {} when another leader has the item, or it is open, or Redis does not have all that was loaded before
--
-- One step: a leader that lost the item between a check and the write would mix its rows with those of the next leader.
local it = leads(ARGV[1]) and read(ARGV[2])
if not it or it.recovering ~= ARGV[1] then
  return {}
end
local at = 4
local function add(command, key)
  local count = tonumber(ARGV[at])
  if count > 0 then
    redis.call(command, key, unpack(ARGV, at + 1, at + count))
  end
  at = at + count + 1
end
count(it, 1, 'next', ARGV[3])
add('HSET', keys)
add('RPUSH', holders)
add('HSET', buyers)
add('SADD', returned)
return {counts(it)}
