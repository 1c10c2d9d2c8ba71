/** The providers, their protocols, and the accounts of makers, from the manifests. */
import type { Account, Manifest, ModelKind, Protocol } from '../../adapters/providers/manifest.ts'
import * as index from '../../adapters/providers/index.ts'
import { manifest as demo } from '../devnet/demo/mod.ts'
import { isFile } from './settings.ts'

/** By name, the demo among them. */
export const providers: readonly Manifest[] = Object.entries({ ...index, demo })
  .toSorted(([one], [other]) => (one < other ? -1 : 1))
  .map(([, manifest]) => manifest)

const protocols = new Map<ModelKind, ReadonlyMap<string, unknown>>()

/** Protocols of one kind of models by name, the demo's last. */
export function protocolsOf<Kind extends ModelKind>(kind: Kind): ReadonlyMap<string, Protocol<Kind>> {
  const known = protocols.get(kind) ?? collected(kind)
  protocols.set(kind, known)
  return known as ReadonlyMap<string, Protocol<Kind>>
}

function collected<Kind extends ModelKind>(kind: Kind): ReadonlyMap<string, Protocol<Kind>> {
  const all = providers.flatMap(({ protocols }) =>
    Object.entries((protocols?.[kind] ?? {}) as Readonly<Record<string, Protocol<Kind>>>),
  )
  return new Map(all.toSorted(([, one], [, other]) => Number(one.isDemo ?? false) - Number(other.isDemo ?? false)))
}

/** Stands for a protocol that a file of the operator's own implements: it is loaded when the process starts. */
const OWN = {
  baseUrl: '',
  create() {
    throw new RangeError('a protocol of a file is made by the file')
  },
}

/** Throws a RangeError for a name that the configuration would have refused. */
export function protocolOf<Kind extends ModelKind>(kind: Kind, name: string): Protocol<Kind> {
  const protocol = isFile(name) ? OWN : protocolsOf(kind).get(name)
  if (!protocol) throw new RangeError(`there is no protocol ${name} for ${kind}`)
  return protocol
}

export type Maker = Account & { readonly manifest: Manifest }

/** Accounts that are turned on by a key alone, by the name that catalog rows use. */
export const makers: ReadonlyMap<string, Maker> = new Map(
  providers
    .flatMap((manifest) => (manifest.account ? [{ ...manifest.account, manifest }] : []))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .map((maker) => [maker.name, maker]),
)

/**
 * The address of a vendor that sets none: the maker's, the protocol's `own`, or `unknown` when a key could be sent to
 * the wrong server.
 */
export function addressOf(vendor: string, kind: 'chat' | 'videos', protocol: string): string {
  const { isDemo, isCommon } = protocolOf(kind, protocol)
  const maker = makers.get(vendor)
  if (isDemo) return 'own'
  if (!maker) return isCommon ? 'unknown' : 'own'
  const spoken = maker.speaks[kind]
  if (kind === 'videos') return spoken === protocol ? 'own' : 'unknown'
  return spoken && familyOf(spoken) === familyOf(protocol) ? (maker.chatBaseUrl ?? 'own') : 'unknown'
}

const familyOf = (chat: string): string => protocolOf('chat', chat).family ?? chat
