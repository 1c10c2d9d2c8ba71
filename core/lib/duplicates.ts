/** The names that stand in a list more than once. */
export const duplicatesIn = (names: readonly string[]): Set<string> =>
  new Set(names.filter((name, index) => names.indexOf(name) !== index))
