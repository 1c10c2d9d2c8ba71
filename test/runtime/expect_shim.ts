/** `bun:test` for other runtimes: the matchers that the laws use, and what they use of the global `Bun`. */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
// @ts-expect-error Of `test/programs`; the bundles of these tests find it there.
import { expect } from 'expect'

expect.extend({
  toStartWith: (received: unknown, start: string) => ({
    pass: String(received).startsWith(start),
    message: () => `${String(received)} does not start with ${start}`,
  }),
})

/** Laws are data here, run by `law_program.ts`. */
export function test(): void {}

const collect = (globalThis as { gc?: () => void }).gc
Object.assign(globalThis, {
  Bun: {
    hash: (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex'),
    deepEquals: isDeepStrictEqual,
    gc: () => collect?.(),
  },
})
// Node has it since 22.3.
Response.prototype.bytes ??= async function bytes(this: Response) {
  return new Uint8Array(await this.arrayBuffer())
}

export { expect }
