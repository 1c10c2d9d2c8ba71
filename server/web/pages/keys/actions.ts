/** Actions of the page /keys. Each names itself while it runs, and reports its outcome. */
import { atomic } from '../lib/x402.ts'
import { NotSigned, type Wallet } from '../wallets/wallet.ts'
import { closeKey, readBalance, refundText, sendDeposit } from './requests.ts'
import type { Key } from './signing.ts'
import type { Terms } from './terms.ts'
import type { Keys, OpenedKey } from './page_state.ts'

const signing = () => import('./signing.ts')

export async function run(
  { setProblem, setNews, setStep }: Keys,
  doing: string,
  working: () => Promise<void>,
): Promise<void> {
  setProblem(undefined)
  setNews('')
  setStep(doing)
  try {
    await working()
  } catch (error) {
    setProblem((error as Error).message)
  }
  setStep('')
}

export const change = ({ setOpened }: Keys, changed: Partial<OpenedKey>): void =>
  setOpened((before) => before && { ...before, ...changed })

export const refresh = async (page: Keys, key: Key): Promise<void> =>
  change(page, { balance: await readBalance(key.text) })

/** Sends a signed deposit. The key stays in view unless it is certain that nothing moved. */
export async function send(page: Keys, key: Key, payment: string): Promise<void> {
  page.setStep('The gateway brings the deposit on chain')
  const outcome = await sendDeposit(payment)
  if (outcome.kind === 'unknown') {
    change(page, { deposit: 'unknown' })
    throw new Error(outcome.reason)
  }
  change(page, { deposit: 'done' })
  await refresh(page, key)
}

type Depositing = { readonly wallet: Wallet; readonly amount: bigint }

export const make = (page: Keys, { offer }: Terms, { wallet, amount }: Depositing): Promise<void> =>
  run(page, 'Waiting for the wallet', async () => {
    const { makeKey, signDeposit } = await signing()
    const key = makeKey(offer.network)
    const address = await wallet.connect()
    const payment = await signDeposit(offer, { key, wallet, address, amount })
    page.setOpened({ key, payment, isVisible: true, deposit: 'sending' })
    try {
      await send(page, key, payment)
    } catch (error) {
      page.setOpened((before) => (before?.deposit === 'sending' ? undefined : before))
      throw error
    }
  })

export const topUp = (
  page: Keys,
  { opened: { key, balance }, terms }: { readonly opened: OpenedKey; readonly terms: Terms },
  { wallet, amount }: Depositing,
): Promise<void> =>
  run(page, 'Waiting for the wallet', async () => {
    const address = await wallet.connect()
    // Another wallet would open a second channel, and what is left would go to two wallets.
    if (balance && address.toLowerCase() !== balance.payer.toLowerCase())
      throw new NotSigned(`This key is paid by ${balance.payer}, and the wallet is ${address}. Switch the account.`)
    const payment = await (await signing()).signDeposit(terms.offer, { key, wallet, address, amount })
    change(page, { payment })
    await send(page, key, payment)
    page.setNews('The deposit is on chain.')
  })

export const open = (page: Keys, pasted: string): Promise<void> =>
  run(page, 'Reading the balance', async () => {
    const key = (await signing()).openKey(pasted)
    page.setOpened({ key, isVisible: false, deposit: 'done', balance: await readBalance(key.text) })
  })

export const close = (page: Keys, { key }: OpenedKey, isReplaced: boolean): Promise<void> =>
  run(page, 'The gateway sends the rest back', async () => {
    const refund = await closeKey(key.text)
    page.setOpened(undefined)
    page.setSuggested(isReplaced ? atomic(refund.amount) : undefined)
    page.setNews(`${refundText(refund)}${isReplaced ? ' Make the new key below.' : ''}`)
    page.top.current?.scrollIntoView({ block: 'start' })
  })
