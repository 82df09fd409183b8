local at = 4 + tonumber(ARGV[4])

local function word()
  at = at + 1
  return ARGV[at]
end

local function int() return tonumber(word()) end

local function semaphore()
  local i = int()
  return semaphores[i] or open(i)
end

local function several()
  local all = {}
  for i = 1, int() do all[i] = semaphore() end
  return all
end

local replies = {}
while at < #ARGV do
  local op, reply, all = word(), nil, nil
  if op == 'acquire' then
    local key, weight, wait, attempt, holder = word(), int(), word() == '1', int(), word()
    all = several()
    for _, s in ipairs(all) do serve(s) end
    reply = acquire(key, weight, wait, attempt, holder, all)
  elseif op == 'renew' then
    local key, token, weight, holder = word(), int(), int(), word()
    all = several()
    reply = renew(key, token, weight, holder, all)
  elseif op == 'release' then
    local key, token = word(), int()
    all = several()
    reply = release(key, token, all)
  elseif op == 'define' then
    all = { semaphore() }
    reply = define(all[1], int(), int(), int(), word() == '1')
  elseif op == 'status' then
    all = { semaphore() }
    reply = status(all[1], int())
  else
    return redis.error_reply('ERR no such operation: ' .. op) -- before anything was written
  end
  replies[#replies + 1] = reply
  for _, s in ipairs(all) do serve(s) end
end
for _, s in pairs(semaphores) do flush(s) end
return { replies, granted }
