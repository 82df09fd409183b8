-- Opens an item that its leader has loaded.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 the leader's token, 2 revision, 3 counts that the leader has seen, 4 forget at (ms), 5... fields and values that the
--       operator sets
-- Reply 1, or 0 when another leader has the item, or Redis does not have all that was loaded
--
-- One step, so that no leader opens what the next one has sealed. A server that was restarted may have kept the token, but not
-- all of the loaded data.
local it = leads(ARGV[1]) and read(ARGV[3])
if not it or not is_server(it.server) then
  return 0
elseif not it.recovering then
  return 1 -- this leader has opened it; the reply was lost
elseif it.recovering ~= ARGV[1] then
  return 0
end
local now = now_ms() -- read before the first write, like everything else
if it.revision + 0 < tonumber(ARGV[2]) then
  redis.call('HSET', item, 'revision', ARGV[2], 'forget', ARGV[4], unpack(ARGV, 5))
end
redis.call('HSET', item, 'rebuilt', string.format('%.0f', now))
redis.call('HDEL', item, 'recovering')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, ARGV[4])
end
return 1
