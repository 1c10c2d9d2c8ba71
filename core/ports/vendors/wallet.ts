/** The vendor interfaces for funding wallets. */

/** Creates on-ramp links, which fund a wallet with purchased money. */
export interface OnrampVendor {
  link(
    wanted: { readonly address: string; readonly network: string; readonly asset: string; readonly ip: string },
    at: { signal: AbortSignal },
  ): Promise<string>
}

/** Accepts deposits for accounts at a prediction market. */
export interface BridgeVendor {
  /** Networks on which it accepts deposits, CAIP-2. */
  readonly networks: readonly string[]
  /** The deposit address of an account, in lower case. */
  depositAddress(account: string, at: { signal: AbortSignal }): Promise<string>
}
