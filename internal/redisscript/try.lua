-- Runs a command; nil if its key is of another type.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call(...) -- ends the script with the error
  end
end
