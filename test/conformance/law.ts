import { expect, test } from 'bun:test'
import { isFull } from '../scope.ts'

/**
 * Something under test, fresh for each law. `open` gives one more handle on the same state, or the same one where there
 * is only one.
 */
export type Subject<T> = { open(): Promise<T>; close(): Promise<void> }

/**
 * A promise that every adapter of a port keeps; `check` throws when it is broken, and needs nothing but the subject.
 */
export type Law<T> = { readonly name: string; check(subject: Subject<T>): Promise<void> }

/** @example law('an object comes back as it was put', async (subject) => { ... }) */
export const law = <T>(name: string, check: (subject: Subject<T>) => Promise<void>): Law<T> => ({ name, check })

/** A law that needs one handle on its subject. */
export const portLaw = <T>(name: string, check: (port: T) => Promise<void>): Law<T> => ({
  name,
  check: async (subject) => check(await subject.open()),
})

/**
 * An adapter with one defect, and the law that has to catch it. `but` says what it does wrong: "forgets the second
 * token".
 */
export type Broken<T> = { readonly law: string; readonly but: string; readonly make: () => Promise<Subject<T>> }

/**
 * Makes broken adapters of a port: each is a good one in which some verbs are replaced.
 *
 * @example
 * const broken = breaking(memoryObjects)
 * broken('an object comes back as it was put', 'forgets its type', (good) => ({ get: async (key) => ... }))
 */
export function breaking<Port extends object>(
  makeGood: () => Port,
  { close = async () => {}, finish = (port) => port }: BreakingOptions<Port> = {},
) {
  return (
    law: string,
    but: string,
    wrap: (good: Port) => Partial<Port>,
    { perHandle = false }: { /** The defect sits in the handle. */ readonly perHandle?: boolean } = {},
  ): Broken<Port> => ({
    law,
    but,
    async make() {
      const good = makeGood()
      const broken = () => finish({ ...good, ...wrap(good) })
      const once = broken()
      return { open: async () => (perHandle ? broken() : once), close: () => close(good) }
    },
  })
}

type BreakingOptions<Port> = {
  readonly close?: (good: Port) => Promise<void>
  /** Members of every broken adapter besides its defect. */
  readonly finish?: (port: Port) => Port
}

/** How long a law waits for what never comes from a broken adapter. A working one has as long as its machine needs. */
let limitMs = 60_000
export const waitLimitMs = (): number => limitMs

/**
 * Registers one test per law (decision 27). A law is skipped only under its name, with a reason; an unknown name
 * throws.
 */
export function runLaws<T>(
  suite: string,
  laws: readonly Law<T>[],
  make: () => Promise<Subject<T>>,
  options: { except?: Readonly<Record<string, string>>; timeoutMs?: number } = {},
): void {
  const except = options.except ?? {}
  for (const name of Object.keys(except)) lawNamed(laws, name)
  for (const law of laws) {
    const reason = except[law.name]
    if (reason !== undefined) {
      test.skip(`${suite}: ${law.name} (skipped: ${reason})`, () => {})
      continue
    }
    test(`${suite}: ${law.name}`, () => uphold(law, make), options.timeoutMs ?? 120_000)
  }
}

/**
 * Registers one test per broken adapter: its law must fail on it. In full, every other law must hold as well, so that
 * each law is needed. Also tests that no law goes without a broken adapter.
 */
export function runBroken<T>(suite: string, laws: readonly Law<T>[], broken: readonly Broken<T>[]): void {
  test(`${suite}: every law has an adapter that breaks it`, () => {
    const caught = new Set(broken.map((each) => lawNamed(laws, each.law).name))
    expect(laws.map((law) => law.name).filter((name) => !caught.has(name))).toEqual([])
  })
  for (const { law, but, make } of broken) {
    test(`${suite}: "${law}"${isFull ? ' alone' : ''} catches an adapter that ${but}`, async () => {
      const failing: string[] = []
      for (const each of isFull ? laws : [lawNamed(laws, law)]) {
        // A broken adapter may hang at its own law; the others hold however slow this machine is.
        limitMs = each.name === law ? 1_000 : 60_000
        if (!(await holds(each, make))) failing.push(each.name)
      }
      limitMs = 60_000
      expect(failing).toEqual([law])
    }, 120_000)
  }
}

async function uphold<T>(law: Law<T>, make: () => Promise<Subject<T>>): Promise<void> {
  const subject = await make()
  try {
    await law.check(subject)
  } finally {
    await subject.close()
  }
}

function holds<T>(law: Law<T>, make: () => Promise<Subject<T>>): Promise<boolean> {
  return uphold(law, make).then(
    () => true,
    () => false,
  )
}

function lawNamed<T>(laws: readonly Law<T>[], name: string): Law<T> {
  const law = laws.find((each) => each.name === name)
  if (!law) throw new RangeError(`no law is called ${JSON.stringify(name)}`)
  return law
}
