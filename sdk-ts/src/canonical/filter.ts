/**
 * The canonical filter of docs/canonical-form.md: a conjunction of clauses, each a path with one operator or a
 * logical operator over filters. Two filters that can differ in their result never get one text.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { isDocument, type Operation, operations, operatorObject } from './operand.ts';
import { compareText } from './text.ts';
import { need } from './unkeyed.ts';
import { array, compare, OBJECT, object, REGEX, sortedSet, type Value } from './value.ts';

/** A path and one operation; no path for `$or` and `$nor`. */
type Clause = readonly [path: string | null, operation: Operation];

function members(list: Json): JsonObject[] {
  need(Array.isArray(list) && list.length && list.every(isDocument));
  return list as JsonObject[];
}

function clauses(filter: JsonObject): Clause[] {
  return Object.entries(filter).flatMap(([name, operand]): Clause[] => {
    if (name[0] !== '$') return operations(operand).map((operation) => [name, operation]);
    if (name === '$comment') return [];
    if (name === '$and') return members(operand).flatMap(clauses);
    need(/^\$n?or$/.test(name));
    const alternatives = members(operand).map(clauses);
    const distinct = sortedSet(alternatives.map(conjunction));
    return name === '$or' && distinct.length === 1
      ? (alternatives[0] as Clause[])
      : [[null, [name, array(distinct)]]];
  });
}

/** `{a:{$eq:v}}` is `{a:v}`, unless v would then be read as operators or as a regular expression. */
function pathField(path: string, all: readonly Operation[]): Operation {
  const [name, operand] = all[0] as Operation;
  const [[rank], text] = operand;
  const bare = all.length === 1 && name === '$eq' && rank !== REGEX && !(rank === OBJECT && text[2] === '$');
  return [path, bare ? operand : operatorObject(all)];
}

function field([path, operation]: Clause): Operation {
  return path === null ? operation : pathField(path, [operation]);
}

function byPathOperatorOperand([a, [f, x]]: Clause, [b, [g, y]]: Clause): number {
  return compareText(a ?? '', b ?? '') || compareText(f, g) || compare(x, y);
}

/** The canonical form of a filter, as a value. */
export function filterValue(filter: JsonObject): Value {
  return conjunction(clauses(filter));
}

function conjunction(all: readonly Clause[]): Value {
  const distinct = new Map(all.map((clause) => [object([field(clause)])[1], clause]));
  const paths = new Map<string, Operation[]>();
  const fields: Operation[] = [];
  const rest: Value[] = [];
  for (const clause of [...distinct.values()].sort(byPathOperatorOperand)) {
    const [path, operation] = clause;
    // The first clause of each operator has its place; further ones become members of `$and`.
    const slot = path === null ? fields : (paths.get(path) ?? []);
    if (slot.some(([name]) => name === operation[0])) rest.push(object([field(clause)]));
    else slot.push(operation);
    if (path !== null) paths.set(path, slot);
  }
  for (const [path, all] of paths) fields.push(pathField(path, all));
  if (rest.length) fields.push(['$and', array(sortedSet(rest))]);
  return object(fields.sort(([a], [b]) => compareText(a, b)));
}
