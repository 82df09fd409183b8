-- The part of library struct that scripts use: Redis has it, and miniredis does not.
local struct = {}

do
  local list = unpack

  local function check(format)
    if string.find(format, '[^>sIiBc%d]') then error('struct: format ' .. format .. ' is not known here') end
  end

  function struct.pack(format, ...)
    check(format)
    local values, n, parts = { ... }, 0, {}
    for kind, size in string.gmatch(format, '([sIiBc])(%d*)') do
      n = n + 1
      if kind == 's' then
        parts[n] = values[n] .. '\0'
      elseif kind == 'c' then
        parts[n] = string.sub(values[n], 1, tonumber(size))
      else
        local value, bytes = math.floor(values[n]), {}
        for i = tonumber(size) or 1, 1, -1 do
          bytes[i] = string.char(value % 256)
          value = math.floor(value / 256)
        end
        parts[n] = table.concat(bytes)
      end
    end
    return table.concat(parts)
  end

  function struct.unpack(format, packed, at)
    check(format)
    local values = {}
    at = at or 1
    for kind, size in string.gmatch(format, '([sIiBc])(%d*)') do
      local value, last
      if kind == 's' then
        last = string.find(packed, '\0', at, true)
        value = string.sub(packed, at, last - 1)
      elseif kind == 'c' then
        last = at + tonumber(size) - 1
        value = string.sub(packed, at, last)
      else
        last = at + (tonumber(size) or 1) - 1
        value = string.byte(packed, at)
        if kind == 'i' and value > 127 then value = value - 256 end
        for i = at + 1, last do value = value * 256 + string.byte(packed, i) end
      end
      values[#values + 1] = value
      at = last + 1
    end
    values[#values + 1] = at
    return list(values)
  end
end
