/** Body of `/devnet`: local chains and a buyer with test money. Only a page on this machine can read it. */
type Devnet = {
  readonly gateways: readonly {
    readonly network: string
    readonly rpc_url: string
    readonly buyer?: { readonly address: string; readonly private_key: string }
  }[]
}

let reading: Promise<Devnet | undefined> | undefined

/** Undefined where the money is real. Read once. */
export function devnet(): Promise<Devnet | undefined> {
  reading ??= fetch('/devnet').then(
    async (reply) => (reply.ok ? ((await reply.json()) as Devnet) : undefined),
    () => undefined,
  )
  return reading
}
