-- Updates an item to the operator's latest definition.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 revision, 2 forget at (ms), 3... fields and values
-- Reply 1, or 0 when Redis has this revision or a later one, or -1 when Redis does not have the item, or a damaged one
--
-- One step and by revision, so that concurrent changes by two operators have the same result here as in the database.
local revision = whole(try('HGET', item, 'revision'))
if not revision then
  return -1
elseif revision >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', item, 'revision', ARGV[1], 'forget', ARGV[2], unpack(ARGV, 3))
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, ARGV[2])
end
return 1
