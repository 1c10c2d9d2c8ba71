/** Terms of the gateways of a run. Times in seconds, amounts in base units. */
export const NETWORK = 'eip155:84532'
export const ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
export const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
export const WITHDRAW_DELAY = 900
export const MIN_DEPOSIT = 20_000n
export const LAG_SECONDS = 4
/** The token's EIP-712 domain. */
export const DOMAIN = { name: 'USDC', version: '2' }
