/** From configuration to who runs sandboxes. On devnet the embedded one does where nothing is set; elsewhere they are then not for sale. */
import { e2bSandbox } from '../../adapters/providers/e2b/sandbox.ts'
import { embeddedSandbox } from '../../adapters/providers/pyodide/sandbox.ts'
import { modalSandbox } from '../../adapters/providers/modal/sandbox.ts'
import { randomBytes } from '../../adapters/local.ts'
import type { Clock, Log, SandboxVendor, Vendors } from '../../core/mod.ts'
import type { SandboxConfig } from '../config/sandbox.ts'
import type { Timed } from '../metrics.ts'

type Wiring = {
  readonly clock: Clock
  readonly log: Log
  readonly timed: Timed
  readonly isDevnet: boolean
  readonly undo: (() => unknown)[]
}

export function sandboxVendor(
  { sandbox }: { readonly sandbox?: SandboxConfig | undefined },
  { timed, isDevnet, undo, ...ports }: Wiring,
): Pick<Vendors, 'sandbox'> {
  const config = sandbox ?? { by: isDevnet ? ('embedded' as const) : ('off' as const) }
  if (!sandbox && !isDevnet)
    ports.log.info('not for sale here: its setting is missing, and its paths answer 503', {
      missing: ['sandbox: neither E2B_API_KEY, MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, nor sandbox (SANDBOX) is set'],
    })
  const vendor = vendorOf(config, { ...ports, undo })
  return vendor ? { sandbox: timed(config.by, vendor) } : {}
}

function vendorOf(
  config: SandboxConfig,
  { undo, ...ports }: Omit<Wiring, 'timed' | 'isDevnet'>,
): SandboxVendor | undefined {
  if (config.by === 'e2b') return e2bSandbox({ ...config, ...ports })
  if (config.by === 'modal') return modalSandbox({ ...config, ...ports })
  return config.by === 'embedded' ? embedded(config, { undo, ...ports }) : undefined
}

/** Where its programs are not installed it is not for sale, and the operator reads what is missing. */
function embedded(
  { most, memory }: Extract<SandboxConfig, { by: 'embedded' }>,
  { undo, ...ports }: Omit<Wiring, 'timed' | 'isDevnet'>,
): SandboxVendor | undefined {
  try {
    const vendor = embeddedSandbox({
      ...ports,
      random: randomBytes,
      ...(most !== undefined && { most }),
      ...(memory !== undefined && { memory }),
    })
    undo.push(() => vendor.close())
    return vendor
  } catch (error) {
    ports.log.warn('sandboxes are not for sale here', { missing: [(error as Error).message] })
    return undefined
  }
}
