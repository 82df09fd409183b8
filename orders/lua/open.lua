-- Opens an item that its leader has loaded.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 the leader's token, 2 revision, 3 forget at (ms), 4... fields and values that the operator sets
-- Reply 1, or 0 when another leader has the item, or the server was restarted since the loading began
--
-- One step, so that no leader opens what the next one has sealed. A server that was restarted may have kept the token, but not
-- all of the loaded data.
local it = redis.call('HMGET', item, 'recovering', 'run', 'revision')
if not leads(ARGV[1]) or it[1] ~= ARGV[1] or not is_server(it[2]) then
  return 0
end
if tonumber(it[3]) < tonumber(ARGV[2]) then
  redis.call('HSET', item, 'revision', ARGV[2], 'forget', ARGV[3], unpack(ARGV, 4))
end
redis.call('HSET', item, 'rebuilt', string.format('%.0f', now_ms()))
redis.call('HDEL', item, 'recovering')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, ARGV[3])
end
return 1
