import { expect, test } from 'bun:test'
import { optional } from '../../../core/lib/optional.ts'

const nobody = 'nobody-has-this-package'

test('a package that is not installed is an error that names it, and what to do', async () => {
  await expect(optional('some-package', 'the demo', () => import(nobody))).rejects.toThrow(
    'the demo needs the package some-package, which is not installed; run: bun add some-package (optional dependencies must not be omitted)',
  )
})

test('a package that fails for another reason fails with that reason', async () => {
  await expect(
    optional('some-package', 'the demo', () => Promise.reject(new Error('its native part is broken'))),
  ).rejects.toThrow('its native part is broken')
})

test('loads an installed package', async () => {
  expect(await optional('viem', 'a chain', () => import('viem'))).toHaveProperty('formatUnits')
})
