/** Who fills wallets. */

/** Makes links by which a wallet is filled with bought money. */
export interface OnrampVendor {
  link(
    wanted: { readonly address: string; readonly network: string; readonly asset: string; readonly ip: string },
    at: { signal: AbortSignal },
  ): Promise<string>
}

/** Takes deposits for accounts at a prediction market. */
export interface BridgeVendor {
  /** Those that it takes deposits on, CAIP-2. */
  readonly networks: readonly string[]
  /** Where deposits for an account are to be sent, in lower case. */
  depositAddress(account: string, at: { signal: AbortSignal }): Promise<string>
}
