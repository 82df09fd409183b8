-- Finds out whether the server has an item as the caller last read it.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 run id of the server, 2 epoch, 3 token of the leader that raised it, 4 counts that the caller has seen
-- Reply {revision, counts}; {'lost'} when Redis does not have the item whole, or has it in an earlier state; {'led'} when the item is being
--       recovered, or a leader of a later epoch has it, or another one of the same epoch; {'restarted'} when it was loaded into another server
--
-- One step, so that an item that changes meanwhile does not look damaged.
local it = read(ARGV[4])
if not it then
  return {'lost'}
elseif it.recovering then
  return {'led'}
end
local led = try('HMGET', lead, 'epoch', 'token') or {}
if led[1] then
  local epoch = whole(led[1])
  if epoch and (epoch > tonumber(ARGV[2]) or epoch == tonumber(ARGV[2]) and led[2] ~= ARGV[3]) then
    return {'led'}
  end
end
if it.server ~= ARGV[1] then
  return {'restarted'}
end
return {whole(it.revision) or 0, counts(it)}
