/** The protocols of models as the manifests name them, the demo's aside: those that speak to a server. */
import * as index from '../../../../adapters/providers/index.ts'
import type { Manifest, ModelKind, ModelPorts, Models, Protocol } from '../../../../adapters/providers/manifest.ts'
import { testClock, testLog } from '../../../kit.ts'

const manifests: readonly Manifest[] = Object.values(index)

const ports: ModelPorts = { clock: testClock(), log: testLog(), countTokens: async () => 0, onClose: () => {} }

export function protocolsOf<Kind extends ModelKind>(kind: Kind): ReadonlyMap<string, Protocol<Kind>> {
  const all = manifests.flatMap(({ protocols }) =>
    Object.entries((protocols?.[kind] ?? {}) as Readonly<Record<string, Protocol<Kind>>>),
  )
  return new Map(all.filter(([, { isDemo }]) => !isDemo))
}

/** Makes a vendor that speaks the protocol. */
export function makerOf<Kind extends ModelKind>(
  kind: Kind,
  name: string,
): (config: Models[Kind]['config']) => Models[Kind]['vendor'] {
  const protocol = protocolsOf(kind).get(name)
  if (!protocol) throw new RangeError(`there is no protocol ${name} for ${kind}`)
  return (config) => protocol.create(config, ports)
}
