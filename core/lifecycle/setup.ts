/** Setup that an embedding program passes to build a gateway. */
import type { Catalog, Context } from '../endpoint/offering.ts'
import type { Endpoint } from '../endpoint/mod.ts'
import type { Window } from '../http/rate_limit.ts'
import type { Controls } from '../payment/control/controls.ts'
import type { Markup } from '../x402/pricing.ts'
import type { Retention } from '../payment/retention.ts'
import type { Timeouts } from '../payment/timeouts.ts'
import type { NewWalletsLimit } from '../payment/unpaid/new_wallets.ts'
import type { NewWalletLimit, Ports } from '../ports/mod.ts'
import type { OfferSigner } from '../x402/offer_receipt.ts'

/** The settings of a gateway. Only `ports` is required. */
export type Setup = {
  readonly ports: Ports
  /** Name in the ledger; by default `default`. */
  readonly name?: string
  /** Name of the network in replies, for example `base`. */
  readonly label?: string
  readonly version?: string
  /** How to reach the operator, for the documents: an http(s) URL or an e-mail address. By default the docs page. */
  readonly contact?: string
  readonly catalog?: Catalog
  readonly endpoints?: readonly Endpoint[]
  readonly timeouts?: Partial<Timeouts>
  /** How long results, ledger rows and media are kept. Give `pruneExpired` the same. */
  readonly retention?: Partial<Retention>
  /**
   * Identifies this process in its calls; random by default. Must differ between two processes that share a storage.
   */
  readonly workerId?: string
  /** Overrides every inline window, in milliseconds; 0 makes every call a job. */
  readonly inlineMs?: number
  /** Largest request body and largest mirrored file, in bytes; by default 1 MiB and 64 MiB. */
  readonly maxBody?: number
  readonly maxMedia?: number
  /** Largest request body with files, in bytes; by default 32 MiB. */
  readonly maxUpload?: number
  /**
   * Memory for request bodies over 64 KiB until they are answered, in bytes, counting each body three times; by default
   * 8 times `maxUpload`. Beyond it the answer is 503.
   */
  readonly maxBodies?: number
  /**
   * Called when 32 MiB of that memory have been released. Collect garbage here: a runtime may put it off until memory
   * use has doubled.
   */
  readonly onBodiesFreed?: () => void
  /** CAIP-2 networks on which the gateway is paid, for products that depend on it. */
  readonly networks?: readonly string[]
  /** Endpoints to leave out, by name; `voice` leaves out every endpoint whose name begins with `voice.`. */
  readonly hidden?: readonly string[]
  /** Status when the chain cannot be reached: 503, or 402 with a code (contract 1.27). */
  readonly unverifiable?: 402 | 503
  /** Rate limits of free models per address; by default 30 a minute and 300 an hour (contract 20.2). */
  readonly freeTier?: readonly Window[]
  /**
   * Characters of unpaid requests that are tokenized per address and minute; by default 10,000,000. A character beyond
   * ASCII counts as its UTF-8 bytes.
   */
  readonly unpaidCharacters?: number
  /** Whether web pages of this `Origin` may use free models; by default all may. */
  readonly freeToOrigin?: (origin: string) => boolean
  /** Limits of one wallet that has not paid, on calls like chat: 2 open ones of 0.05 USDC; the first at any price. */
  readonly newWallet?: Partial<Omit<NewWalletLimit, 'endpoints'>>
  /**
   * Limit on what they may have open or unpaid together: by default 4 USDC a gateway (1 for streams), 1.5 an address.
   */
  readonly newWallets?: Partial<NewWalletsLimit>
  /** Wallet allowlists of restricted products: `generate_content`, `background`. */
  readonly allowlists?: Readonly<Record<string, readonly string[]>>
  /** Features that the operator has switched off for a while. */
  readonly featureFlags?: Context['featureFlags']
  /** Keys that sign poll URLs, in hex, newest first. By default storage keeps one that all replicas share. */
  readonly pollKeys?: readonly string[]
  /**
   * Signs the offers and receipts of the gateway (contract 1.79); see `offerSigner`. By default they are not signed.
   */
  readonly signer?: OfferSigner
  /** False: takes no payments by the Machine Payments Protocol. By default it does, beside `exact` on EVM. */
  readonly mpp?: boolean
  /** Grants the operator's routes to `Authorization: Bearer`. By default nobody has access. */
  readonly operatorToken?: string
  /**
   * Path under which the host mounts the gateway, such as `/ai`: every URL in replies and documents begins with it, and
   * it is taken off the path of a request. Without a slash at its end; by default empty.
   */
  readonly basePath?: string
  /** Additions to the rates of the catalog: a fee of 0.001 USD per call and 5% on media by default. */
  readonly markup?: Partial<Markup>
  /** The operator's limits, lists, margins and maintenance switch, shared by the gateways of a process. */
  readonly controls?: Controls
  /** Serves `/v1/*` like `/api/v1/*` (contract 3.8). */
  readonly bareV1?: boolean
}
