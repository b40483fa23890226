/**
 * The canonical filter of docs/canonical-form.md: a conjunction of clauses, each a path with one operator or a
 * logical operator over filters. Two filters that can differ in their result never get one text.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { need, OBJECT, REGEX, type Value } from './leaf.ts';
import { type Operation, operations, operatorObject } from './operand.ts';
import { sortedSet } from './order.ts';
import { array, isDocument, object } from './value.ts';

/** A path and one operation. `$or` and `$nor` stand for both path and operator; no path begins with `$`. */
type Clause = readonly [path: string, ...operation: Operation];

const members = (list: Json): JsonObject[] => {
  need((list as unknown[])[0] && (list as Json[]).every(isDocument));
  return list as JsonObject[];
};

const clauses = (filter: JsonObject): Clause[] =>
  Object.entries(filter).flatMap(([name, operand]): Clause[] => {
    if (name[0] !== '$') return operations(operand).map((operation) => [name, ...operation]);
    if (name === '$comment') return [];
    if (name === '$and') return members(operand).flatMap(clauses);
    need(/^\$n?or$/.test(name));
    const alternatives = members(operand).map(clauses);
    const distinct = sortedSet(alternatives.map(conjunction));
    return name === '$or' && !distinct[1] ? (alternatives[0] as Clause[]) : [[name, name, array(distinct)]];
  });

/** `{a:{$eq:v}}` is `{a:v}`, unless v would then be read as operators or as a regular expression. */
const field = (path: string, all: readonly Operation[]): Operation => {
  const [name, operand] = all[0] as Operation;
  const [[rank], text] = operand;
  const bare = !all[1] && name === '$eq' && rank !== REGEX && !(rank === OBJECT && text[2] === '$');
  return [path, bare || name === path ? operand : operatorObject(all)];
};

const conjunction = (all: Clause[]): Value => {
  const paths = new Map<string, Operation[]>();
  const rest: Value[] = [];
  for (const [path, ...operation] of sortedSet(all)) {
    const slot = paths.get(path) ?? [];
    // The first clause of each operator has its place; further ones become members of `$and`.
    if (slot.at(-1)?.[0] === operation[0]) rest.push(object([field(path, [operation])]));
    else paths.set(path, [...slot, operation]);
  }
  const fields = [...paths].map(([path, operations]) => field(path, operations));
  if (rest[0]) fields.push(['$and', array(sortedSet(rest))]);
  return object(sortedSet(fields));
};

/** The canonical form of a filter, as a value. */
export const filterValue = (filter: JsonObject): Value => conjunction(clauses(filter));
