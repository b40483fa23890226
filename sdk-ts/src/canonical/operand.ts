/**
 * Operators of a path and their operands in canonical form ("Operands" of docs/canonical-form.md).
 */
import type { Json, JsonObject } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { double, long, type Numbered, type Numeric, ratio } from './number.ts';
import { compareText } from './text.ts';
import { need } from './unkeyed.ts';
import {
  array,
  BINARY,
  isWrapper,
  leaf,
  NUMBER,
  number,
  object,
  REGEX,
  regex,
  sortedSet,
  string,
  type Value,
  value,
} from './value.ts';

/** An operator's name and operand. The operand of `$regex` is a regular expression, options included. */
export type Operation = readonly [name: string, operand: Value];

/** BSON types by their number; 0 is no type's. https://www.mongodb.com/docs/manual/reference/operator/query/type/ */
const TYPES =
  ',double,string,object,array,binData,undefined,objectId,bool,date,null,regex,dbPointer,javascript,symbol,javascriptWithScope,int,timestamp,long,decimal'.split(
    ',',
  );

export function isDocument(j: Json): j is JsonObject {
  return typeof j === 'object' && j !== null && !Array.isArray(j);
}

/** Whether an object holds operators: its first field begins with `$`, and it is no wrapped value. */
export function isOperators(j: Json): j is JsonObject {
  return isDocument(j) && !isWrapper(j) && Object.keys(j)[0]?.[0] === '$';
}

function truncate(order: Numeric): Numbered {
  if (typeof order === 'number') return double(Math.trunc(order));
  const { over, under } = ratio(order);
  return long(over / under);
}

/** A number as an integer of 64 bits; one with a fraction only where it is to be truncated. */
function whole(j: Json, truncated?: boolean): Value {
  const [[rank, order]] = value(j) as readonly [readonly [number, Numeric], string];
  need(rank === NUMBER);
  const [integer, json] = truncate(order);
  need(typeof integer !== 'number' || Number.isSafeInteger(integer));
  need(truncated || integer === order);
  return number([integer, json]);
}

function list(j: Json, member: (j: Json) => Value): Value[] {
  need(Array.isArray(j));
  return j.map((one: Json) => member(one));
}

const set = (member: (j: Json) => Value) => (j: Json) => array(sortedSet(list(j, member)));

function typeName(j: Json): string {
  if (typeof j === 'string') {
    need(/^(number|m(in|ax)Key)$/.test(j) || TYPES.indexOf(j) > 0);
    return j;
  }
  const code = Number(whole(j)[1]);
  const name = code === -1 ? 'minKey' : code === 127 ? 'maxKey' : TYPES[code];
  need(name);
  return name;
}

function types(j: Json): Value {
  const names = [...new Set((Array.isArray(j) ? j : [j]).map(typeName))].sort();
  need(names[0]);
  return names.length > 1 ? array(names.map(string)) : string(names[0]);
}

function elementMatch(j: Json): Value {
  need(isDocument(j));
  return isOperators(j) && !/^\$(and|n?or|comment)$/.test(Object.keys(j)[0] as string)
    ? operatorObject(operations(j))
    : filterValue(j);
}

/** A member of `$all` may be `{$elemMatch:…}`. */
function allMember(j: Json): Value {
  if (!isOperators(j)) return value(j);
  need(Object.keys(j).join() === '$elemMatch');
  return object([['$elemMatch', elementMatch(j.$elemMatch as Json)]]);
}

function inMember(j: Json): Value {
  need(!isOperators(j));
  return value(j);
}

function not(j: Json): Value {
  const all = operations(j);
  need(all[0]?.[0] !== '$eq' || isOperators(j));
  return operatorObject(all);
}

function bits(j: Json): Value {
  if (Array.isArray(j)) return set(whole)(j);
  const v = value(j);
  return v[0][0] === BINARY ? v : whole(j);
}

function modulo(j: Json): Value {
  const numbers = list(j, (n) => whole(n, true));
  need(numbers.length === 2 && numbers[0]?.[1] !== '0');
  return array(numbers);
}

function exists(j: Json): Value {
  const yes = j !== null && j !== false && value(j)[1] !== '0';
  return leaf([40, yes], yes);
}

function pattern(j: Json, options: Json): Value {
  const [[rank, source, own]] = typeof j === 'string' ? regex(j, '') : value(j);
  need(rank === REGEX && typeof options === 'string' && !(own && options));
  return regex(source as string, (own as string) || options);
}

const OPERANDS: { readonly [name: string]: (j: Json) => Value } = {
  $eq: value,
  $ne: value,
  $gt: value,
  $gte: value,
  $lt: value,
  $lte: value,
  $in: set(inMember),
  $nin: set(inMember),
  $all: set(allMember),
  $not: not,
  $elemMatch: elementMatch,
  $exists: exists,
  $type: types,
  $size: whole,
  $mod: modulo,
  $bitsAllSet: bits,
  $bitsAllClear: bits,
  $bitsAnySet: bits,
  $bitsAnyClear: bits,
};

/** What a path's operand says: one operation for a value, one for each operator of an operator object. */
export function operations(j: Json): Operation[] {
  if (!isOperators(j)) {
    const v = value(j);
    return [[v[0][0] === REGEX ? '$regex' : '$eq', v]];
  }
  const { $options, ...others } = j;
  need($options === undefined || others.$regex !== undefined);
  return Object.entries(others).map(([name, inner]) => {
    if (name === '$regex') return [name, pattern(inner, $options ?? '')];
    need(Object.hasOwn(OPERANDS, name));
    return [name, (OPERANDS[name] as typeof value)(inner)];
  });
}

/** Operations of distinct names as an operator object. */
export function operatorObject(all: readonly Operation[]): Value {
  const fields = all.flatMap(([name, v]): Operation[] => {
    if (name !== '$regex') return [[name, v]];
    const [, source, options] = v[0] as string[];
    const regexField: Operation = [name, string(source as string)];
    return options ? [['$options', string(options)], regexField] : [regexField];
  });
  return object(fields.sort(([a], [b]) => compareText(a, b)));
}
