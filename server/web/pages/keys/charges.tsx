import { useState } from 'preact/hooks'
import { Sums } from '../wallet/sums.tsx'
import { type Charged, type KeyCharges, readCharges } from './requests.ts'

type Props = {
  readonly keyText: string
  readonly isBusy: boolean
  readonly onRun: (doing: string, working: () => Promise<void>) => Promise<void>
}

/** Charges of the key by day and by model. */
export function Charges({ keyText, isBusy, onRun }: Props) {
  const [charges, setCharges] = useState<KeyCharges>()
  const read = () => onRun('Reading the charges', async () => setCharges(await readCharges(keyText)))
  return (
    <section aria-labelledby="charges">
      <h2 id="charges">Charges</h2>
      <p>
        By day and by model, of the last ninety days, with those of its child keys. Each call and its result are under{' '}
        <a href="/wallet">Purchases</a>, after a sign-in of the wallet.
      </p>
      <p class="row">
        <button type="button" disabled={isBusy} onClick={read}>
          {charges ? 'Read again' : 'Show the charges'}
        </button>
      </p>
      {charges?.calls === 0 && <p>This key was charged nothing yet.</p>}
      {charges && !charges.is_complete && <p class="soft">There are more calls than the ten thousand counted here.</p>}
      {charges && charges.calls > 0 && (
        <div class="sums">
          <Sums title="By day" first="Day" sums={charges.by_day.map((sum) => rowOf(sum.day, sum))} />
          <Sums title="By model" first="Model" sums={charges.by_model.map((sum) => rowOf(sum.model, sum))} />
        </div>
      )}
    </section>
  )
}

const rowOf = (name: string, { calls, charged }: Charged) => ({
  name,
  calls,
  total: BigInt(charged.replace('.', '')),
})
