#!lua name=freshet_1
-- The sketch in Redis: the same state machine as core/src/sketch/machine.rs, one atomic function per operation, with
-- the server's clock. All keys share one hash tag (KEYS[1], "{prefix}"), so a cluster keeps them in one slot.
--
-- {p}:meta      hash   epoch, salt, sat (saturated until, ms), floor, run (the server's life in which all of it was written)
-- {p}:spaces    set    collections that have any of the following
-- {p}:members   hash   process -> report
-- {p}:resume    hash   process -> where its change feed resumes
-- {p}:e:NS      hash   key -> entry: outstanding copies, fresh and stale
-- {p}:d:NS      zset   key by the moment to look at its entry again
-- {p}:x:NS      hash   stale key -> its hash halves: what is counted in the filter
-- {p}:l:NS      hash   key -> position of its last change
-- {p}:q:NS      zset   key by the moment of its last change
-- {p}:s:NS      hash   m, floor
-- {p}:c:NS      string counters, 8 bits each
-- {p}:b:NS      string flat bits in wire order
--
-- Positions are 16 hexadecimal digits: they do not fit a Lua number, and compare as strings.

local BITS_MIN, BITS_MAX, KEYS_PER_BITS_MIN, HASHES = 116800, 116800 * 16, 20000, 4
local ZERO = '0000000000000000'

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function later(a, b)
  if a > b then return a end
  return b
end

-- Whether the caller's epoch is the current one; else the reply that says which is.
local function stale_epoch(root, epoch)
  local current = redis.call('HGET', root .. ':meta', 'epoch')
  if current == epoch then return nil end
  return redis.error_reply('EPOCH ' .. (current or '0'))
end

-- A server that was started again, or a replica that took over, may have an older state than it confirmed.
local function run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

local function is_of_this_life(root)
  return redis.call('HGET', root .. ':meta', 'run') == run()
end

local function new_space(root, ns)
  local floor = redis.call('HGET', root .. ':meta', 'floor') or ZERO
  redis.call('SADD', root .. ':spaces', ns)
  redis.call('HSET', root .. ':s:' .. ns, 'm', BITS_MIN, 'floor', floor)
  return BITS_MIN, floor
end

-- A collection's part: names of its keys, m, floor.
local function open_space(root, ns)
  local s = { e = root .. ':e:' .. ns, d = root .. ':d:' .. ns, x = root .. ':x:' .. ns, l = root .. ':l:' .. ns,
    q = root .. ':q:' .. ns, s = root .. ':s:' .. ns, c = root .. ':c:' .. ns, b = root .. ':b:' .. ns }
  local known = redis.call('HMGET', s.s, 'm', 'floor')
  if known[1] then
    s.m, s.floor = tonumber(known[1]), known[2]
  else
    s.m, s.floor = new_space(root, ns)
  end
  return s
end

local function raise_floor(s, position)
  if position > s.floor then
    s.floor = position
    redis.call('HSET', s.s, 'floor', position)
  end
end

-- An entry: fresh until, embedded until, greatest M, least position; the same of the stale copies, with the latest
-- position; hash halves. "Until" 0 means there are none.
local FU, FE, FM, FP, SU, SE, SM, SP, A, B = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local function load_entry(s, key)
  local packed = redis.call('HGET', s.e, key)
  if packed then return cmsgpack.unpack(packed) end
  return nil
end

local function save_entry(s, key, entry)
  redis.call('HSET', s.e, key, cmsgpack.pack(entry))
end
