/**
 * Every verb of a port, for whatever wraps one: a verb that is added to the port does not compile until it has a line
 * there. Undefined: absent.
 */
export type Verbs<Port> = { readonly [Verb in keyof Required<Port>]: Port[Verb] }

/** The port, without the verbs that are absent. */
export function portOf<Port>(verbs: Verbs<Port>): Port {
  return Object.fromEntries(Object.entries(verbs).filter(([, verb]) => verb !== undefined)) as Port
}
