/** Python as WebAssembly, in a process on this machine: sandboxes without an account. */
import { provider } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { type EmbeddedSandbox, embeddedSandbox, MAX_SANDBOXES, SANDBOX_MEMORY } from './sandbox.ts'

export { type EmbeddedSandbox, embeddedSandbox, type EmbeddedSandboxOptions } from './sandbox.ts'

export const manifest = provider({
  name: 'pyodide',
  title: 'Pyodide',
  settings: {
    sandbox_most: setting('Maximum number of embedded sandboxes at once.', Type.Integer({ minimum: 1, maximum: 64 }), {
      usual: String(MAX_SANDBOXES),
    }),
    sandbox_memory_mb: setting(
      'The memory limit of one embedded sandbox, in MB.',
      Type.Integer({ minimum: 64, maximum: 1024 }),
      { usual: String(SANDBOX_MEMORY) },
    ),
  },
  environment: { SANDBOX_MOST: 'sandbox_most', SANDBOX_MEMORY_MB: 'sandbox_memory_mb' },
  serves: {
    sandbox: {
      as: 'embedded',
      note: 'in a process on this machine; not with Postgres',
      isOnDevnet: true,
      isOneProcess: true,
      create: ({ sandbox_most: most, sandbox_memory_mb: memory }, { clock, log, random, onClose }) => {
        let vendor: EmbeddedSandbox
        try {
          vendor = embeddedSandbox({
            clock,
            log,
            random,
            ...(most !== undefined && { most }),
            ...(memory !== undefined && { memory }),
          })
        } catch (error) {
          log.warn('sandboxes are not for sale here', { missing: [(error as Error).message] })
          return undefined
        }
        onClose(() => vendor.close())
        return vendor
      },
    },
  },
})
